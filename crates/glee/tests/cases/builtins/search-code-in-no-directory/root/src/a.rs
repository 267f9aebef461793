fn one() {}
fn two() {}
