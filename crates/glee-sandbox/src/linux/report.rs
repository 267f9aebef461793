//! Gathers what holds while a launcher confines itself, and judges whether that is enough.

use super::message::Unavailable;
use crate::{Confinement, Layer, LayerState, Profile, State, Strength, Tier};

#[derive(Default)]
pub(super) struct Report {
    layers: Vec<LayerState>,
}

impl Report {
    pub(super) fn of(&mut self, layer: Layer, result: Result<(), String>) {
        let state = match result {
            Ok(()) => State::Enforced,
            Err(why) => State::Missing {
                why: why.replace('\0', " "),
            },
        };
        self.layers.push(LayerState { layer, state });
    }

    pub(super) fn nothing(why: &str) -> Strength {
        let mut report = Report::default();
        for layer in Layer::ALL {
            report.of(layer, Err(why.to_owned()));
        }
        report.strength()
    }

    pub(super) fn strength(mut self) -> Strength {
        self.layers.sort_by_key(|it| it.layer as u8);
        let mut strength = Strength {
            tier: Tier::None,
            layers: self.layers,
        };
        let holds = |layers: &[Layer]| layers.iter().all(|it| strength.enforces(*it));
        strength.tier = if holds(&[
            Layer::ProcessTree,
            Layer::Root,
            Layer::Seccomp,
            Layer::Network,
        ]) {
            if holds(&[Layer::Cgroup]) {
                Tier::Full
            } else {
                Tier::FullWithoutCgroup
            }
        } else if holds(&[Layer::Landlock, Layer::Seccomp]) {
            Tier::Landlock
        } else {
            Tier::None
        };
        strength
    }
}

/// Whether the profile may not run with this strength, and what would help.
pub(super) fn refusal(profile: &Profile, strength: &Strength) -> Option<Unavailable> {
    if profile.confinement != Confinement::Required {
        return None;
    }
    // Files are held by either of two layers, and a tree without a PID namespace is still ended by the warden. Without
    // a control group the limits of single processes remain.
    let needed = [
        (Layer::Seccomp, "use a kernel with seccomp filters"),
        (
            Layer::Network,
            "deny the network, or run where user namespaces are allowed",
        ),
        (
            Layer::Protect,
            "grant a narrower path, or run where user namespaces are allowed",
        ),
    ];
    let files = (
        Layer::Landlock,
        "use a kernel with landlock, or one that allows user namespaces",
    );
    let files = (!strength.enforces(Layer::Root)).then_some(files);
    let (layer, help) = needed
        .into_iter()
        .chain(files)
        .find(|it| !strength.enforces(it.0))?;
    let why = match strength.state(layer) {
        Some(State::Missing { why }) => why.clone(),
        _ => "not available".to_owned(),
    };
    let what_to_do = format!("{help}, or set sandbox: best-effort to run without it");
    Some(Unavailable {
        layer: layer.to_string(),
        why,
        what_to_do,
    })
}
