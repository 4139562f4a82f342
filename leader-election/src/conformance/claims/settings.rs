//! Values and settings.

use crate::{
    ErrorKind, Leader, MAX_VALUE_BYTES,
    conformance::{
        Harness,
        stage::{Outcome, Stage, ensure},
    },
};

pub(in crate::conformance) async fn values_are_bytes(harness: &dyn Harness) -> Outcome {
    let stage = Stage::new(harness);
    let election = stage.node(0, stage.long()).await;
    let other = stage.node(1, stage.long()).await;
    let mut seen = other.observe();
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let longest = all.repeat(MAX_VALUE_BYTES / all.len());
    for value in [Vec::new(), all, longest] {
        for proclaimed in [false, true] {
            let first: &[u8] = if proclaimed { b"first" } else { &value };
            let leadership = stage.lead(&election, first).await?;
            if proclaimed {
                leadership
                    .proclaim(&value)
                    .await
                    .map_err(|e| e.to_string())?;
            }
            let token = leadership.token();
            let is_shown = |leader: &Option<Leader>| {
                leader
                    .as_ref()
                    .is_some_and(|leader| leader.token == token && leader.value == value)
            };
            let what = format!("a value of {} bytes is shown as it is", value.len());
            let shown = seen.wait_for(is_shown);
            stage.soon(&what, shown).await?.map_err(|e| e.to_string())?;
            stage.released(&leadership).await?;
        }
    }
    let too_long = vec![0; MAX_VALUE_BYTES + 1];
    let refused = stage.campaign(&election, &too_long).await;
    ensure!(
        refused
            .as_ref()
            .is_err_and(|text| text.contains("(Invalid)")),
        "campaigning with a value of {} bytes: {refused:?}",
        too_long.len()
    );
    let leadership = stage.lead(&election, b"n").await?;
    let refused = leadership.proclaim(&too_long).await;
    let kind = refused.as_ref().map_err(crate::Error::kind);
    ensure!(
        kind == Err(ErrorKind::Invalid) && leadership.is_valid(),
        "proclaiming a value of {} bytes: {refused:?}",
        too_long.len()
    );
    Ok(())
}

pub(in crate::conformance) async fn a_takeover_delay_is_kept(harness: &dyn Harness) -> Outcome {
    let stage = Stage::new(harness);
    // Longer than a lease: the winner renews meanwhile.
    let delay = stage.ttl + stage.ttl / 4;
    let config = stage.short().with_takeover_delay(delay);
    let first = stage.node(0, stage.short()).await;
    let second = stage.node(1, config).await;
    let old = stage.lead(&first, b"old").await?;
    let next = stage.queue_up(&second, b"next", 2).await?;
    let place = harness.queue().await[1];
    let resigned_at = harness.now();
    stage.released(&old).await?;
    let new = next.wins("the successor").await?;
    let waited = harness.now() - resigned_at;
    ensure!(
        waited >= delay && new.token() == place,
        "the successor led {waited:?} after its predecessor went, as token {}; the delay is \
         {delay:?}, its place was {place}",
        new.token()
    );
    stage.released(&new).await?;
    let released_at = harness.now();
    let alone = stage.lead(&second, b"alone").await?;
    let waited = harness.now() - released_at;
    ensure!(
        waited >= delay && alone.is_valid(),
        "a winner that saw no predecessor led {waited:?} after it went; the delay is {delay:?}"
    );
    Ok(())
}
