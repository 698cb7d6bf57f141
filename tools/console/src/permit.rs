//! Permit of a request in progress, which its work in the background shares until it ends.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

tokio::task_local! {
    static PERMIT: Permit;
}

pub(super) type Permit = Arc<OwnedSemaphorePermit>;

/// Processes a request that has this permit.
pub(super) async fn with<T>(permit: OwnedSemaphorePermit, request: impl Future<Output = T>) -> T {
    PERMIT.scope(Arc::new(permit), request).await
}

/// Returns the permit of the current request.
pub(super) fn current() -> Option<Permit> {
    PERMIT.try_with(Arc::clone).ok()
}
