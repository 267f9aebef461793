//! Two texts, line by line: what is gone and what is new.

/// Texts with more lines than this, multiplied, are not compared line by line.
const MOST: usize = 4_000_000;

/// The lines that differ, with `-` before those that are gone and `+` before the new ones.
pub(super) fn diff(before: &str, now: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), now.lines().collect());
    if old.len().saturating_mul(new.len()) > MOST {
        return vec!["too much to compare; read all of it".to_owned()];
    }
    let common = common(&old, &new);
    let mut lines = Vec::new();
    let (mut at, mut here) = (0, 0);
    while at < old.len() || here < new.len() {
        if at < old.len() && here < new.len() && old[at] == new[here] {
            at += 1;
            here += 1;
        } else if here == new.len()
            || (at < old.len() && common[at + 1][here] >= common[at][here + 1])
        {
            lines.push(format!("- {}", old[at]));
            at += 1;
        } else {
            lines.push(format!("+ {}", new[here]));
            here += 1;
        }
    }
    lines
}

/// How many lines the rests have in common at most, from each pair of places on.
fn common(old: &[&str], new: &[&str]) -> Vec<Vec<u32>> {
    let mut table = vec![vec![0; new.len() + 1]; old.len() + 1];
    for at in (0..old.len()).rev() {
        for here in (0..new.len()).rev() {
            table[at][here] = match old[at] == new[here] {
                true => table[at + 1][here + 1] + 1,
                false => table[at + 1][here].max(table[at][here + 1]),
            };
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ() {
        assert_eq!(diff("a\nb\nc\n", "a\nb\nc\n"), [""; 0]);
        assert_eq!(diff("a\nb\nc\n", "a\nc\nd\n"), ["- b", "+ d"]);
        assert_eq!(diff("", "a"), ["+ a"]);
        assert_eq!(diff("a", "b"), ["- a", "+ b"]);
    }
}
