//! A client behind a broken wire.

use std::sync::Arc;

use async_trait::async_trait;
use recipes::conformance::{FaultyClient, Resource};

use crate::proxy::Proxy;

pub(crate) struct Broken {
    pub(crate) resource: Arc<dyn Resource>,
    pub(crate) proxy: Proxy,
}

#[async_trait]
impl FaultyClient for Broken {
    fn resource(&self) -> Arc<dyn Resource> {
        Arc::clone(&self.resource)
    }

    fn faults(&self) -> u64 {
        self.proxy.faults()
    }

    fn heal(&self) {
        self.proxy.heal();
    }
}
