//! Messages of the queue, and the invocations of writer-fn.

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) entity: u32,
    pub(crate) deliveries: u8,
}

impl Message {
    pub(crate) fn new(entity: u32) -> Self {
        Self { entity, deliveries: 0 }
    }
}

/// Messages of one entity.
pub(crate) struct Lane {
    pub(crate) messages: VecDeque<Message>,
    /// Failed attempts of the first message.
    pub(crate) failures: u32,
}

pub(crate) struct WriterInvocation {
    pub(crate) started: u64,
    pub(crate) size: usize,
    pub(crate) lanes: Vec<Lane>,
    /// The first lane that has not started.
    pub(crate) next: usize,
    /// Lanes that have not ended.
    pub(crate) open: usize,
    pub(crate) cpu_free: u64,
    pub(crate) tokens: u32,
    pub(crate) failed: Vec<Message>,
}
