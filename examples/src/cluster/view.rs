//! What a person sees of a running cluster: live lines in a terminal, else news only.

use std::io::{IsTerminal, Write};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// The view; dropping it leaves what is drawn.
#[derive(Debug)]
pub struct View {
    live: Option<Live>,
    is_quiet: bool,
    told: String,
}

#[derive(Debug)]
struct Live {
    all: MultiProgress,
    lines: Vec<ProgressBar>,
}

// ===== impl View =====

impl View {
    /// Draws to standard error.
    #[must_use]
    pub fn new(is_quiet: bool) -> Self {
        let is_live = !is_quiet && std::io::stderr().is_terminal();
        Self {
            live: is_live.then(|| Live {
                all: MultiProgress::new(),
                lines: Vec::new(),
            }),
            is_quiet,
            told: String::new(),
        }
    }

    /// Tells something once.
    pub fn news(&self, line: &str) {
        let line: String = line.chars().filter(|c| !c.is_control()).collect();
        match &self.live {
            Some(live) => {
                let _ = live.all.println(line);
            }
            None if self.is_quiet => {}
            // Fails where nobody reads; then there is nobody to tell.
            None => {
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        }
    }

    /// Shows the leader's status and each process; without a terminal only who leads.
    pub fn show(&mut self, status: &str, processes: &[(String, bool)]) {
        let Some(live) = &mut self.live else {
            let leader = status.lines().next().unwrap_or_default();
            if leader != self.told {
                self.told = leader.to_owned();
                self.news(leader);
            }
            return;
        };
        let ended = processes.iter().filter(|(_, runs)| !runs);
        let ended = ended.map(|(name, _)| format!("{name} is not running"));
        let lines: Vec<String> = status.lines().map(str::to_owned).chain(ended).collect();
        while live.lines.len() < lines.len() {
            let line = live.all.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                line.set_style(style);
            }
            live.lines.push(line);
        }
        let blank = std::iter::repeat(String::new());
        for (line, text) in live.lines.iter().zip(lines.into_iter().chain(blank)) {
            line.set_message(text);
        }
    }

    /// Ends the live lines, which stay as they are.
    pub fn finish(self) {
        for line in self.live.iter().flat_map(|live| &live.lines) {
            line.abandon();
        }
    }
}
