//! Invocations of the functions, as Lambda sends them.

use crate::{
    events,
    subject::{Role, Subject},
};

/// Memory sizes at which functions are measured, in MB. The largest has one vCPU.
pub(crate) const MEMORY_SIZES: [u32; 5] = [128, 256, 512, 1024, crate::limits::VCPU_MEMORY_MB];

/// One kind of invocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// Updates or records of the event.
    pub(crate) items: usize,
    event: fn(usize, &Subject) -> String,
}

pub(crate) const DIRECT: Workload = Workload {
    name: "direct",
    role: Role::Writer,
    items: 1,
    event: |_, subject| events::one(Role::Writer, subject),
};
pub(crate) const QUEUE_BATCH: Workload = Workload {
    name: "SQS batch of 10",
    role: Role::Writer,
    items: 10,
    event: |items, _| events::queue_batch(items),
};
pub(crate) const RECORD: Workload = records("stream batch of 1", 1);
pub(crate) const RECORDS: Workload = records("stream batch of 25", 25);
pub(crate) const FULL_BATCH: Workload = records("stream batch of 1000", 1000);

pub(crate) const ALL: [Workload; 5] = [DIRECT, QUEUE_BATCH, RECORD, RECORDS, FULL_BATCH];

const fn records(name: &'static str, items: usize) -> Workload {
    Workload {
        name,
        role: Role::Stream,
        items,
        event: events::stream_batch,
    }
}

impl Workload {
    pub(crate) fn event(&self, subject: &Subject) -> String {
        (self.event)(self.items, subject)
    }
}

/// Returns the workloads of a function, the smallest first.
pub(crate) fn of(role: Role) -> impl Iterator<Item = Workload> {
    ALL.into_iter().filter(move |workload| workload.role == role)
}
