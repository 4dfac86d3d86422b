//! Measures the time of the hot paths per item and per byte. It's for people, on an otherwise idle
//! machine.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rowstream_micro::{Case, cases};

/// One iteration is a pass over all items. The throughput is shown in bytes and in items.
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
