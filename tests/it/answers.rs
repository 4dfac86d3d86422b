//! Responses of upstreams that only look successful: a partial response, another protocol, empty
//! JSON, and unsolicited responses. Each is tested with all three uses of upstreams: passed
//! through, as calls, and as pages of a list.

use crate::support::upstream::Scripted;
use crate::support::{Client, Ended, Launch, Reply, Server, get};
use http::Request;

const PASS: &str = "[params]\npath = 'text'\n[upstream]\nrequest = 'GET /{path}'";
const CALLS: &str = "[params]\npath = 'text'\ncount = { type = 'integer', default = 1 }\n\
     [upstream]\nrequest = 'GET /{path}?id={n}'\nrepeat = 'count'\nconcurrency = 1";
const LIST: &str = "[params]\npath = 'text'\n[upstream]\nrequest = 'GET /{path}'\nrows = { at = '', optional = true }\n\
     columns = { id = 'integer' }";

async fn server(upstream: &Scripted) -> Server {
    let config = format!("[source.up]\nurl = \"{}\"\n", upstream.url);
    let files = [
        ("rowstream.toml", config.as_str()),
        ("endpoints/pass/{path}.toml", PASS),
        ("endpoints/calls/{path}.toml", CALLS),
        ("endpoints/list/{path}.toml", LIST),
    ];
    Launch::files(&files).start().await
}

fn json(body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
        .into()
}

fn assert_problem(reply: &Reply, code: &str, what: &str) {
    assert_eq!((reply.status.as_u16(), &reply.ended), (502, &Ended::Complete), "{what}: {}", reply.text());
    assert_eq!(reply.json()["code"], code, "{what}: {}", reply.text());
}

/// An upstream answered 206 to requests without `Range`, and we treated the part as complete. We
/// also passed on 101, and turned empty replies into rows.
#[tokio::test]
async fn what_only_looks_like_success_is_a_502() {
    const PART: &str = "HTTP/1.1 206 Partial Content\r\ncontent-type: application/json\r\ncontent-range: bytes 0-10/99\r\n\
        content-length: 10\r\n\r\n[{\"id\":1}]";
    let answer = |target: &str| match target.split('?').next().unwrap_or_default() {
        "/part" => PART,
        "/switch" => "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        "/empty" => "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n",
        "/chunked" => {
            "HTTP/1.1 200 OK\r\ncontent-type: application/hal+json\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
        }
        _ => panic!("{target}"),
    };
    let upstream = Scripted::start(move |target, _| answer(target).into()).await;
    let server = server(&upstream).await;
    for (path, code) in [("part", "upstream_broken"), ("switch", "upstream_broken")] {
        for way in ["pass", "calls", "list"] {
            assert_problem(
                &get(&server.url(&format!("/{way}/{path}"))).await,
                code,
                &format!("{way} {path}"),
            );
        }
    }
    for path in ["empty", "chunked"] {
        for way in ["pass", "calls", "list"] {
            let reply = get(&server.url(&format!("/{way}/{path}"))).await;
            assert_problem(&reply, "upstream_reply", &format!("{way} {path}"));
        }
    }
}

/// Bodiless responses stay as they are, and so does a part that the client requested.
#[tokio::test]
async fn answers_without_a_body_and_parts_that_were_asked_for_are_passed_on() {
    let upstream = Scripted::start(|target, _| match target {
        "/part" => {
            b"HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 0-1/9\r\ncontent-length: 2\r\n\r\nab"
                .into()
        }
        "/early" => [b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".as_slice(), &json("[]")].concat(),
        "/none" => b"HTTP/1.1 204 No Content\r\ncontent-type: application/json\r\n\r\n".into(),
        "/reset" => {
            b"HTTP/1.1 205 Reset Content\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n"
                .into()
        }
        "/same" => b"HTTP/1.1 304 Not Modified\r\ncontent-type: application/json\r\n\r\n".into(),
        "/failed" => {
            b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n".into()
        }
        "/head" => b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n".into(),
        _ => panic!("{target}"),
    })
    .await;
    let server = server(&upstream).await;
    for (path, status) in [("early", 200), ("none", 204), ("reset", 205), ("same", 304), ("failed", 404)] {
        let reply = get(&server.url(&format!("/pass/{path}"))).await;
        assert_eq!((reply.status.as_u16(), &reply.ended), (status, &Ended::Complete), "{path}");
    }
    let range = Request::get(server.url("/pass/part")).header("range", "bytes=0-1");
    let reply = Client::HTTP1.send(range.body(String::new()).unwrap()).await;
    assert_eq!((reply.status.as_u16(), reply.text()), (206, "ab"));
    let head = Request::head(server.url("/pass/head")).body(String::new()).unwrap();
    assert_eq!(Client::HTTP1.send(head).await.status.as_u16(), 200);
}

/// An upstream sent an extra response. Each later request on that connection got the response of
/// the previous one.
#[tokio::test]
async fn a_surplus_answer_is_nobodys() {
    // Together with the first response on a connection, or while the connection is idle.
    for is_idle in [false, true] {
        let upstream = Scripted::start(move |target, before| {
            let own = json(&format!("[{{\"id\":{}}}]", target.len()));
            if before == 0 && !is_idle { [own, json("[{\"id\":0}]")].concat() } else { own }
        })
        .await;
        let server = server(&upstream).await;
        for (way, path, expected) in
            [("pass", "a", 2), ("list", "bc", 3), ("pass", "def", 4), ("list", "ghij", 5)]
        {
            let reply = get(&server.url(&format!("/{way}/{path}"))).await;
            assert_eq!((reply.status.as_u16(), &reply.ended), (200, &Ended::Complete), "{}", reply.text());
            assert_eq!(reply.json()[0]["id"], expected, "{}", reply.text());
            if is_idle {
                upstream.push(&json("[{\"id\":0}]"));
            }
        }
        assert_eq!(upstream.connections(), 4, "none is used again");
        let reply = get(&server.url("/calls/k?count=3")).await;
        let bodies: Vec<_> =
            reply.json().as_array().unwrap().iter().map(|row| row["body"][0]["id"].clone()).collect();
        assert_eq!(bodies, [7, 7, 7]);
    }
}

/// An extra response that arrives with the next one precedes it. We used the first one, but can't
/// know which is correct.
#[tokio::test]
async fn of_two_answers_to_one_request_none_is_believed() {
    let upstream = Scripted::start(|_, before| {
        let own = json("[{\"id\":1}]");
        if before > 0 { [json("[{\"id\":0}]"), own].concat() } else { own }
    })
    .await;
    let server = server(&upstream).await;
    for way in ["pass", "list", "calls"] {
        // The first request on its connection.
        let before = upstream.connections();
        let reply = get(&server.url(&format!("/{way}/a"))).await;
        assert_eq!((reply.status.as_u16(), upstream.connections()), (200, before + 1), "{way}");
        assert_problem(&get(&server.url(&format!("/{way}/a"))).await, "upstream_broken", way);
    }
}
