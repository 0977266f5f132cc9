//! What transactions compare.

use etcd::etcdserverpb::{
    Compare, PutRequest, TxnRequest,
    compare::{CompareResult, CompareTarget, TargetUnion},
};

use crate::talk::{Talk, put};

use CompareResult::{Equal, Greater, Less, NotEqual};
use TargetUnion::{CreateRevision, Lease, ModRevision, Value, Version};

crate::cases![
    every_field_is_compared_in_every_way,
    an_absent_key_has_zeroes_and_no_value,
    a_compare_of_a_range_must_hold_for_each_key,
    all_compares_must_hold,
    what_a_compare_names_that_is_unknown_does_not_stand_in_the_way,
];

/// What a field is compared with.
type Operand = fn(i64) -> TargetUnion;

/// A compare of one key.
pub(super) fn compare(key: &str, result: CompareResult, operand: TargetUnion) -> Compare {
    let target = match operand {
        Version(_) => CompareTarget::Version,
        CreateRevision(_) => CompareTarget::Create,
        ModRevision(_) => CompareTarget::Mod,
        Value(_) => CompareTarget::Value,
        Lease(_) => CompareTarget::Lease,
    };
    let key = key.to_owned().into();
    Compare { result: result.into(), target: target.into(), key, target_union: Some(operand), ..Default::default() }
}

/// A transaction that only tells whether these compares hold.
pub(super) fn asks(compare: Vec<Compare>) -> TxnRequest {
    TxnRequest { compare, ..Default::default() }
}

async fn every_field_is_compared_in_every_way(talk: &mut Talk) {
    talk.grant(7, 600).await;
    talk.put("x", "0").await;
    talk.put("a", "4").await;
    talk.get(PutRequest { lease: 7, ..put("a", "5") }).await;
    let number = |number: i64, own: i64| [(Equal, number == own), (NotEqual, number != own), (Less, own < number), (Greater, own > number)];
    let operands: [(Operand, i64); 5] =
        [(Version, 2), (CreateRevision, talk.at(2)), (ModRevision, talk.at(3)), (Lease, 7), (|number| Value(number.to_string().into()), 5)];
    for (operand, own) in operands {
        for asked in [own - 1, own, own + 1] {
            for (relation, holds) in number(asked, own) {
                let answer = if holds { "@3 then {}" } else { "@3 else {}" };
                talk.ask(asks(vec![compare("a", relation, operand(asked))]), answer).await;
            }
        }
    }
}

async fn an_absent_key_has_zeroes_and_no_value(talk: &mut Talk) {
    for (relation, operand, holds) in [
        (Equal, Version(0), true),
        (Equal, CreateRevision(0), true),
        (Equal, ModRevision(0), true),
        (Equal, Lease(0), true),
        (Less, Version(1), true),
        (Greater, ModRevision(0), false),
        (NotEqual, CreateRevision(0), false),
        (Equal, Value("".into()), false),
        (NotEqual, Value("x".into()), false),
        (Less, Value("x".into()), false),
    ] {
        let answer = if holds { "@0 then {}" } else { "@0 else {}" };
        talk.ask(asks(vec![compare("absent", relation, operand)]), answer).await;
    }
}

async fn a_compare_of_a_range_must_hold_for_each_key(talk: &mut Talk) {
    for (key, value) in [("a", "1"), ("b", "1"), ("c", "2")] {
        talk.put(key, value).await;
    }
    let over = |key, end: &'static str, relation, operand| Compare { range_end: end.into(), ..compare(key, relation, operand) };
    for (compare, holds) in [
        (over("a", "c", Equal, Value("1".into())), true),
        (over("a", "d", Equal, Value("1".into())), false),
        (over("a", "\0", Greater, Value("0".into())), true),
        (over("b", "\0", Equal, Version(1)), true),
        (over("d", "z", Equal, Version(0)), true),
        (over("d", "z", Greater, Version(0)), false),
        (over("d", "z", NotEqual, Value("".into())), false),
        (over("c", "a", Equal, CreateRevision(0)), true),
    ] {
        talk.ask(asks(vec![compare]), if holds { "@3 then {}" } else { "@3 else {}" }).await;
    }
}

async fn all_compares_must_hold(talk: &mut Talk) {
    talk.put("a", "1").await;
    let (right, wrong) = (compare("a", Equal, Version(1)), compare("a", Equal, Version(2)));
    talk.ask(asks(vec![]), "@1 then {}").await;
    talk.ask(asks(vec![right.clone(), right.clone()]), "@1 then {}").await;
    talk.ask(asks(vec![right, wrong]), "@1 else {}").await;
}

async fn what_a_compare_names_that_is_unknown_does_not_stand_in_the_way(talk: &mut Talk) {
    talk.put("a", "1").await;
    let relation = Compare { result: 9, ..compare("a", Equal, Version(5)) };
    talk.ask(asks(vec![relation]), "@1 then {}").await;
    let field = Compare { target: 9, ..compare("a", Equal, Version(5)) };
    talk.ask(asks(vec![field.clone()]), "@1 then {}").await;
    talk.ask(asks(vec![Compare { result: Less.into(), ..field }]), "@1 else {}").await;
    // The field counts, not which operand is there.
    let other = Compare { target: CompareTarget::Version.into(), ..compare("a", Equal, Value("1".into())) };
    talk.ask(asks(vec![other.clone()]), "@1 else {}").await;
    talk.ask(asks(vec![Compare { target_union: None, result: Greater.into(), ..other }]), "@1 then {}").await;
}
