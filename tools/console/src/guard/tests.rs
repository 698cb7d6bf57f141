use axum::{Router, middleware, routing::post};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_form_that_is_sent_slowly_is_rejected() {
    let secrets = Arc::new(Secrets::new(None));
    let guard = Arc::new(Guard::new(Arc::clone(&secrets), Hosts::default(), 8100));
    let pages = Router::new().route("/restore", post(async || "restored"));
    let router = pages.layer(middleware::from_fn_with_state(guard, check));
    let bearer = format!("Bearer {}", secrets.token());
    for (path, is_signed_in) in [(SIGN_IN, false), ("/restore", true)] {
        // One byte every second, without end.
        let drip = futures::stream::unfold((), async |()| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, std::io::Error>("x"), ()))
        });
        let mut request = Request::post(path)
            .header(header::HOST, "localhost:8100")
            .header(header::ORIGIN, "http://localhost:8100");
        if is_signed_in {
            request = request.header(header::AUTHORIZATION, &bearer);
        }
        let request = request.body(Body::from_stream(drip)).unwrap();
        let started = Instant::now();
        let response = TowerToHyperService::new(router.clone()).call(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT, "{path}");
        assert_eq!(started.elapsed().as_secs(), FORM_TIMEOUT.as_secs(), "{path}");
    }
}
