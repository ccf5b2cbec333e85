//! Who is let in and who is not, by what a request says and where it comes from.

use super::*;

const SECRET: &str = "abcdefghijklmnopqrstuvwxyz012345";
const SOURCE: Source = Source::Address(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

fn request(target: &str, pairs: &[(&'static str, &str)]) -> Parts {
    let mut request = axum::http::Request::builder().uri(target);
    for (name, value) in pairs {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn status(result: Result<Caller, Box<Refusal>>) -> u16 {
    result.map_or_else(|refused| refused.status.as_u16(), |_| 200)
}

fn at(config: GuardConfig, address: &str) -> Guard {
    Guard::new(config, Place::Address(address.parse().unwrap())).unwrap()
}

fn here(config: GuardConfig) -> Guard {
    at(config, "127.0.0.1:80")
}

fn pages() -> GuardConfig {
    GuardConfig { allow_loopback_pages: true, ..GuardConfig::default() }
}

#[test]
fn a_rebound_name_or_a_foreign_page_is_kept_out() {
    let guard = here(pages());
    for (host, origin, expected) in [
        ("127.0.0.1:80", None, 200),
        ("LOCALHOST:80", Some("http://localhost:3000"), 200),
        ("[::1]:80", Some("http://[::1]"), 200),
        ("evil.example", None, 403),
        ("localhost.evil.example:80", None, 403),
        ("127.0.0.1:80", Some("http://evil.example"), 403),
        ("127.0.0.1:80", Some("null"), 403),
        ("127.0.0.1:80", Some("http://localhost.evil.example"), 403),
        ("127.0.0.1:80", Some("ftp://localhost"), 403),
        ("127.0.0.1:80@evil", None, 400),
        ("127.0.0.1:80", Some("http://localhost:1@evil.example"), 400),
    ] {
        let mut pairs = vec![("host", host)];
        pairs.extend(origin.map(|origin| ("origin", origin)));
        assert_eq!(status(guard.admit(&request("/x", &pairs), PeerUser::Same, SOURCE)), expected, "{host} {origin:?}");
    }
    let mapped = at(pages(), "[::ffff:127.0.0.1]:80");
    let foreign = request("/x", &[("host", "evil.example")]);
    assert_eq!(status(mapped.admit(&foreign, PeerUser::Same, SOURCE)), 403, "IPv4 in IPv6 is loopback too");
    let named = GuardConfig {
        allowed_hosts: vec!["Agent.example".to_owned()],
        allowed_origins: vec![Origin::parse("https://ide.example").unwrap()],
        ..GuardConfig::default()
    };
    let from = [("host", "agent.example"), ("origin", "https://IDE.example")];
    assert_eq!(status(here(named).admit(&request("/x", &from), PeerUser::Same, SOURCE)), 200);
}

#[test]
fn a_page_of_the_loopback_is_let_in_only_where_that_is_said() {
    let page = request("/x", &[("host", "localhost"), ("origin", "http://localhost:3000")]);
    assert_eq!(status(here(GuardConfig::default()).admit(&page, PeerUser::Same, SOURCE)), 403);
    assert_eq!(status(here(pages()).admit(&page, PeerUser::Same, SOURCE)), 200);
    let everywhere = GuardConfig { tokens: with_tokens().tokens, ..pages() };
    assert_eq!(status(at(everywhere, "0.0.0.0:80").admit(&page, PeerUser::Unasked, SOURCE)), 403);
}

#[test]
fn a_place_that_can_be_read_in_two_ways_is_refused() {
    let guard = at(with_tokens(), "0.0.0.0:80");
    let pass = ("authorization", &*format!("Bearer {SECRET}"));
    let local = ("host", "localhost");
    for (target, pairs, expected) in [
        ("/x", vec![local], 200),
        ("http://localhost/x", vec![local], 200),
        ("/x", vec![], 400),
        ("/x", vec![local, local], 400),
        ("/x", vec![local, ("host", "evil.example")], 400),
        ("http://evil.example/x", vec![local], 400),
        ("http://localhost:81/x", vec![local], 400),
        ("http://me@localhost/x", vec![local], 400),
        ("/x", vec![local, ("origin", "http://a"), ("origin", "http://b")], 400),
    ] {
        let pairs: Vec<_> = pairs.into_iter().chain([pass]).collect();
        let admitted = guard.admit(&request(target, &pairs), PeerUser::Unasked, SOURCE);
        assert_eq!(status(admitted), expected, "{target} {pairs:?}");
    }
}

fn with_tokens() -> GuardConfig {
    let tokens = vec![Token::new("ada", SECRET).unwrap(), Token::new("bob", &SECRET.to_uppercase()).unwrap()];
    GuardConfig { tokens, ..GuardConfig::default() }
}

#[test]
fn without_a_token_only_the_same_user_is_served() {
    let local = request("/x", &[("host", "localhost")]);
    for (user, expected) in
        [(PeerUser::Same, 200), (PeerUser::Other(7), 403), (PeerUser::Unknown, 403), (PeerUser::Unasked, 403)]
    {
        assert_eq!(status(here(GuardConfig::default()).admit(&local, user, SOURCE)), expected, "{user:?}");
        let unix = Guard::new(with_tokens(), Place::Unix).unwrap();
        assert_eq!(status(unix.admit(&local, user, SOURCE)), expected, "a unix socket asks for no token: {user:?}");
    }
    assert_eq!(status(here(with_tokens()).admit(&local, PeerUser::Other(7), SOURCE)), 401, "tokens tell who it is");
}

#[test]
fn a_unix_socket_has_no_name_and_takes_no_page() {
    let unix = Guard::new(pages(), Place::Unix).unwrap();
    let admit = |pairs: &[(&'static str, &str)]| status(unix.admit(&request("/x", pairs), PeerUser::Same, SOURCE));
    assert_eq!(admit(&[("host", "whatever.example")]), 200);
    assert_eq!(admit(&[("host", "localhost"), ("origin", "https://evil.example")]), 403);
}

#[test]
fn a_token_tells_who_it_is_and_others_are_kept_out() {
    let guard = at(GuardConfig { failures_per_second: None, ..with_tokens() }, "0.0.0.0:80");
    let admit = |value: &str| {
        guard.admit(&request("/x", &[("host", "any"), ("authorization", value)]), PeerUser::Unasked, SOURCE)
    };
    assert_eq!(admit(&format!("Bearer {SECRET}")).unwrap(), Caller::Token("ada".into()));
    assert_eq!(admit(&format!("bearer {}", SECRET.to_uppercase())).unwrap(), Caller::Token("bob".into()));
    for wrong in ["", "Bearer", "Bearer x", SECRET, &format!("Basic {SECRET}"), &format!("Bearer {SECRET}x")] {
        assert_eq!(status(admit(wrong)), 401, "{wrong}");
    }
    let in_url = request(&format!("/x?access_token={SECRET}&token={SECRET}"), &[("host", "any")]);
    assert_eq!(status(guard.admit(&in_url, PeerUser::Unasked, SOURCE)), 401, "an address is no place for a secret");
}

#[test]
fn wrong_tokens_are_held_up_for_their_source_and_right_ones_are_not() {
    let guard = at(GuardConfig { failures_per_second: Some(2), ..with_tokens() }, "0.0.0.0:80");
    let admit = |token: &str, source: &str| {
        let bearer = format!("Bearer {token}");
        let request = request("/x", &[("host", "any"), ("authorization", &bearer)]);
        status(guard.admit(&request, PeerUser::Unasked, Source::Address(source.parse().unwrap())))
    };
    let answers: Vec<u16> = (0..20).map(|_| admit("guess", "2001:db8::1")).collect();
    let told = answers.iter().filter(|status| **status == 401).count();
    assert!((4..=5).contains(&told) && answers.contains(&429), "{answers:?}");
    assert_eq!(admit("guess", "2001:db8::2"), 429, "a network of 64 bits is one source");
    assert_eq!(admit("guess", "10.0.0.1"), 401, "another source");
    assert_eq!(admit(SECRET, "2001:db8::1"), 200, "a caller who shares the address is not kept out");
}

#[test]
fn more_than_the_rate_is_held_up_for_each_alone() {
    let guard = here(GuardConfig { requests_per_second: 2, ..GuardConfig::default() });
    let local = request("/x", &[("host", "localhost")]);
    let passed = (0..10).filter(|_| guard.admit(&local, PeerUser::Same, SOURCE).is_ok()).count();
    assert!((4..=5).contains(&passed), "{passed}");
    assert!(guard.check_rate(&Caller::Token("ada".into())).is_ok());
}

#[test]
fn the_network_needs_a_token() {
    let place = |address: &str| Place::Address(address.parse().unwrap());
    let refused = Guard::new(GuardConfig::default(), place("0.0.0.0:80")).err().unwrap().to_string();
    assert!(refused.contains("give one with GuardConfig::tokens"), "{refused}");
    assert!(Guard::new(with_tokens(), place("0.0.0.0:80")).is_ok());
    assert!(Guard::new(GuardConfig::default(), Place::Unix).is_ok());
}
