//! How long the hot paths take, per item and per byte: for people, on a machine that does nothing
//! else.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rowstream_micro::{Case, cases};

/// A pass over all items is one iteration; the throughput tells what that is in bytes and in items.
fn measure(criterion: &mut Criterion, case: Case) {
    let mut group = criterion.benchmark_group(case.name);
    let (mut pass, mut out) = (case.build(), Vec::new());
    pass.run(&mut out);
    group.throughput(Throughput::ElementsAndBytes { elements: pass.items as u64, bytes: out.len() as u64 });
    group.bench_function("pass", |bencher| bencher.iter(|| pass.run(&mut out)));
    group.finish();
}

fn all(criterion: &mut Criterion) {
    cases().into_iter().for_each(|case| measure(criterion, case));
}

criterion_group!(benches, all);
criterion_main!(benches);
