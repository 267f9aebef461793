//! The bodies of the messages: a profile, an order, a strength, a failed start, an end.

use std::ffi::{CStr, OsStr};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::wire::{Malformed, Reader, Writer};
use crate::profile::Identity;
use crate::{
    Confinement, End, Exit, IpRange, Layer, LayerState, Limit, Limits, Network, Order, Profile,
    StartError, State, Strength, Tier,
};

/// An order as it arrived: every text ends with NUL inside the received buffer.
pub(super) struct OrderView<'a> {
    pub(super) program: &'a CStr,
    /// What the program must be, if that was said.
    pub(super) checked: Option<Identity>,
    /// Whether it must be that also for the interpreter of a script.
    pub(super) is_kept: bool,
    pub(super) argv: Vec<&'a CStr>,
    pub(super) env: Vec<&'a CStr>,
    pub(super) cwd: &'a CStr,
}

pub(super) fn write_order(order: &Order) -> Result<Vec<u8>, StartError> {
    let mut out = Writer::default();
    text(&mut out, "the program", order.program.as_os_str())?;
    let was = order.checked.as_ref().map(|it| it.was);
    out.optional(was.map(|it| it.device));
    out.optional(was.map(|it| it.inode));
    out.optional(was.map(|it| it.changed.0.cast_unsigned()));
    out.optional(was.map(|it| it.changed.1.cast_unsigned()));
    out.byte(order.checked.as_ref().is_some_and(|it| it.is_kept).into());
    text(&mut out, "the working directory", order.cwd.as_os_str())?;
    out.number(order.args.len() as u64 + 1);
    text(&mut out, "the program", order.program.as_os_str())?;
    for arg in &order.args {
        text(&mut out, "an argument", arg)?;
    }
    out.number(order.env.len() as u64);
    for (name, value) in &order.env {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            return Err(StartError::Io(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                "the name of an environment variable is empty or contains =",
            )));
        }
        let mut pair = name.clone();
        pair.push("=");
        pair.push(value);
        text(&mut out, "the environment", &pair)?;
    }
    Ok(out.0)
}

fn text(out: &mut Writer, part: &'static str, text: &OsStr) -> Result<(), StartError> {
    if text.as_bytes().contains(&0) {
        return Err(StartError::Nul { part });
    }
    out.text(text);
    Ok(())
}

pub(super) fn read_order(body: &[u8]) -> Result<OrderView<'_>, Malformed> {
    let mut from = Reader::new(body);
    let program = from.text()?;
    let parts = [
        from.optional()?,
        from.optional()?,
        from.optional()?,
        from.optional()?,
    ];
    let checked = match parts {
        [Some(device), Some(inode), Some(seconds), Some(rest)] => Some(Identity {
            device,
            inode,
            changed: (seconds.cast_signed(), rest.cast_signed()),
        }),
        [None, None, None, None] => None,
        _ => return Err(Malformed),
    };
    let is_kept = match from.byte()? {
        0 => false,
        1 => true,
        _ => return Err(Malformed),
    };
    let cwd = from.text()?;
    let argv = from.list(Reader::text)?;
    let env = from.list(Reader::text)?;
    from.end()?;
    if argv.is_empty() {
        return Err(Malformed);
    }
    Ok(OrderView {
        program,
        checked,
        is_kept,
        argv,
        env,
        cwd,
    })
}

/// What a launcher is told before anything else.
pub(super) struct Setup {
    pub(super) profile: Profile,
    /// No more than this is attempted.
    pub(super) ceiling: Tier,
    /// Why not more, in words for the report.
    pub(super) why: String,
}

pub(super) fn write_setup(profile: &[u8], ceiling: Tier, why: &str) -> Vec<u8> {
    let mut out = Writer::default();
    out.byte(ceiling as u8);
    out.text(OsStr::new(why));
    out.0.extend(profile);
    out.0
}

pub(super) fn read_setup(body: &[u8]) -> Result<Setup, Malformed> {
    let mut from = Reader::new(body);
    let ceiling = tier(from.byte()?)?;
    let why = from.text()?.to_string_lossy().into_owned();
    let profile = read_profile(&mut from)?;
    from.end()?;
    Ok(Setup {
        profile,
        ceiling,
        why,
    })
}

fn tier(byte: u8) -> Result<Tier, Malformed> {
    Tier::ALL
        .into_iter()
        .find(|it| *it as u8 == byte)
        .ok_or(Malformed)
}

pub(super) fn write_weaker(why: &str) -> Vec<u8> {
    let mut out = Writer::default();
    out.text(OsStr::new(&why.replace('\0', " ")));
    out.0
}

pub(super) fn read_weaker(body: &[u8]) -> Result<String, Malformed> {
    Ok(Reader::new(body).text()?.to_string_lossy().into_owned())
}

pub(super) fn write_profile(profile: &Profile) -> Result<Vec<u8>, StartError> {
    let mut out = Writer::default();
    out.byte(profile.confinement as u8);
    match &profile.network {
        Network::None => out.byte(0),
        Network::Outbound { granted } => {
            out.byte(1);
            out.list(granted, write_range);
        }
        Network::Proxy { socket } => {
            out.byte(2);
            text(&mut out, "a path", socket.as_os_str())?;
        }
    }
    for paths in [
        &profile.read,
        &profile.write,
        &profile.protect,
        &profile.hide,
    ] {
        out.number(paths.len() as u64);
        for path in paths {
            text(&mut out, "a path", path.as_os_str())?;
        }
    }
    let limits = &profile.limits;
    out.optional(
        limits
            .cpu
            .map(|it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX)),
    );
    out.optional(limits.memory);
    out.optional(limits.processes.map(u64::from));
    out.optional(limits.open_files.map(u64::from));
    out.optional(limits.file_size);
    out.number(limits.scratch_size);
    Ok(out.0)
}

fn read_profile(from: &mut Reader<'_>) -> Result<Profile, Malformed> {
    let confinement = match from.byte()? {
        0 => Confinement::Required,
        1 => Confinement::BestEffort,
        2 => Confinement::Off,
        _ => return Err(Malformed),
    };
    let network = match from.byte()? {
        0 => Network::None,
        1 => Network::Outbound {
            granted: from.list(read_range)?,
        },
        2 => Network::Proxy {
            socket: path(from.text()?),
        },
        _ => return Err(Malformed),
    };
    let mut paths = || from.list(|it| it.text().map(path));
    let (read, write, protect, hide) = (paths()?, paths()?, paths()?, paths()?);
    let limits = Limits {
        cpu: from.optional()?.map(Duration::from_nanos),
        memory: from.optional()?,
        processes: narrow(from.optional()?)?,
        open_files: narrow(from.optional()?)?,
        file_size: from.optional()?,
        scratch_size: from.number()?,
    };
    Ok(Profile {
        confinement,
        network,
        read,
        write,
        protect,
        hide,
        limits,
    })
}

fn narrow(value: Option<u64>) -> Result<Option<u32>, Malformed> {
    value
        .map(|it| u32::try_from(it).map_err(|_| Malformed))
        .transpose()
}

fn path(text: &CStr) -> PathBuf {
    Path::new(OsStr::from_bytes(text.to_bytes())).to_path_buf()
}

fn write_range(out: &mut Writer, range: &IpRange) {
    match range.address {
        IpAddr::V4(it) => {
            out.byte(4);
            out.0.extend(it.octets());
        }
        IpAddr::V6(it) => {
            out.byte(6);
            out.0.extend(it.octets());
        }
    }
    out.byte(range.prefix);
    out.optional(range.port.map(u64::from));
}

fn read_range(from: &mut Reader<'_>) -> Result<IpRange, Malformed> {
    let mut octets = |count: usize| {
        (0..count)
            .map(|_| from.byte())
            .collect::<Result<Vec<u8>, _>>()
    };
    let address = match octets(1)?[0] {
        4 => IpAddr::from(<[u8; 4]>::try_from(octets(4)?).map_err(|_| Malformed)?),
        6 => IpAddr::from(<[u8; 16]>::try_from(octets(16)?).map_err(|_| Malformed)?),
        _ => return Err(Malformed),
    };
    let prefix = from.byte()?;
    let port = from
        .optional()?
        .map(|it| u16::try_from(it).map_err(|_| Malformed))
        .transpose()?;
    Ok(IpRange {
        address,
        prefix,
        port,
    })
}

pub(super) fn write_strength(strength: &Strength) -> Vec<u8> {
    let mut out = Writer::default();
    out.byte(strength.tier as u8);
    out.list(&strength.layers, |out, it| {
        out.byte(it.layer as u8);
        match &it.state {
            State::Enforced => out.byte(1),
            State::Missing { why } => {
                out.byte(0);
                out.text(OsStr::new(why));
            }
        }
    });
    out.0
}

pub(super) fn read_strength(body: &[u8]) -> Result<Strength, Malformed> {
    let mut from = Reader::new(body);
    let tier = from.byte()?;
    let tier = Tier::ALL
        .into_iter()
        .find(|it| *it as u8 == tier)
        .ok_or(Malformed)?;
    let layers = from.list(|from| {
        let layer = from.byte()?;
        let layer = Layer::ALL
            .into_iter()
            .find(|it| *it as u8 == layer)
            .ok_or(Malformed)?;
        let state = match from.byte()? {
            1 => State::Enforced,
            0 => State::Missing {
                why: from.text()?.to_string_lossy().into_owned(),
            },
            _ => return Err(Malformed),
        };
        Ok(LayerState { layer, state })
    })?;
    from.end()?;
    Ok(Strength { tier, layers })
}

/// Why a launcher cannot hold its profile.
pub(super) struct Unavailable {
    pub(super) layer: String,
    pub(super) why: String,
    pub(super) what_to_do: String,
}

pub(super) fn write_unavailable(it: &Unavailable) -> Vec<u8> {
    let mut out = Writer::default();
    for part in [&it.layer, &it.why, &it.what_to_do] {
        out.text(OsStr::new(part));
    }
    out.0
}

pub(super) fn read_unavailable(body: &[u8]) -> Result<Unavailable, Malformed> {
    let mut from = Reader::new(body);
    let mut part = || from.text().map(|it| it.to_string_lossy().into_owned());
    Ok(Unavailable {
        layer: part()?,
        why: part()?,
        what_to_do: part()?,
    })
}

/// The step of a start that failed, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    pub(super) step: Step,
    pub(super) errno: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Clone,
    Layer,
    Descriptors,
    Cwd,
    Limits,
    Checked,
    Exec,
}

impl Step {
    const ALL: [Step; 7] = [
        Step::Clone,
        Step::Layer,
        Step::Descriptors,
        Step::Cwd,
        Step::Limits,
        Step::Checked,
        Step::Exec,
    ];
}

pub(super) fn write_failed(failed: Failed) -> Vec<u8> {
    let mut out = Writer::default();
    out.byte(failed.step as u8);
    out.number(failed.errno.unsigned_abs().into());
    out.0
}

pub(super) fn read_failed(body: &[u8]) -> Result<Failed, Malformed> {
    let mut from = Reader::new(body);
    let step = from.byte()?;
    let step = Step::ALL
        .into_iter()
        .find(|it| *it as u8 == step)
        .ok_or(Malformed)?;
    let errno = i32::try_from(from.number()?).map_err(|_| Malformed)?;
    Ok(Failed { step, errno })
}

/// What follows an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// The warden takes the next order.
    Next,
    /// Another warden will say that it is ready.
    Fresh,
}

pub(super) fn write_end(end: &End, then: Then) -> Vec<u8> {
    let mut out = Writer::default();
    let (kind, number) = match end.exit {
        Exit::Code(it) => (0, it),
        Exit::Signal(it) => (1, it),
    };
    out.byte(kind);
    out.number(u64::from(number.cast_unsigned()));
    out.number(u64::try_from(end.cpu.as_nanos()).unwrap_or(u64::MAX));
    out.number(end.peak_memory);
    out.optional(end.limit.map(|it| it as u64));
    out.byte(then as u8);
    out.0
}

pub(super) fn read_end(body: &[u8]) -> Result<(End, Then), Malformed> {
    let mut from = Reader::new(body);
    let kind = from.byte()?;
    let number = u32::try_from(from.number()?)
        .map_err(|_| Malformed)?
        .cast_signed();
    let exit = match kind {
        0 => Exit::Code(number),
        1 => Exit::Signal(number),
        _ => return Err(Malformed),
    };
    let cpu = Duration::from_nanos(from.number()?);
    let peak_memory = from.number()?;
    let limit = from.optional()?;
    let limit = limit
        .map(|it| {
            Limit::ALL
                .into_iter()
                .find(|limit| *limit as u64 == it)
                .ok_or(Malformed)
        })
        .transpose()?;
    let then = match from.byte()? {
        0 => Then::Next,
        1 => Then::Fresh,
        _ => return Err(Malformed),
    };
    from.end()?;
    Ok((
        End {
            exit,
            cpu,
            peak_memory,
            limit,
        },
        then,
    ))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs::File;
    use std::os::unix::ffi::OsStringExt;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::Checked;

    fn text() -> impl Strategy<Value = OsString> {
        vec(1..=255u8, 0..40).prop_map(OsString::from_vec)
    }

    fn order() -> impl Strategy<Value = Order> {
        (
            text(),
            vec(text(), 0..10),
            vec((vec(b'A'..=b'Z', 1..9), text()), 0..10),
            text(),
            0..3,
        )
            .prop_map(|(program, args, env, cwd, checked)| Order {
                program: program.into(),
                checked: match (
                    checked,
                    Checked::now(File::open("/").unwrap().into()).unwrap(),
                ) {
                    (0, _) => None,
                    (1, found) => Some(found),
                    (_, found) => Some(found.kept()),
                },
                args,
                env: env
                    .into_iter()
                    .map(|(name, value)| (OsString::from_vec(name), value))
                    .collect(),
                cwd: cwd.into(),
                fds: vec![],
            })
    }

    fn profile() -> impl Strategy<Value = Profile> {
        let paths = || vec(text().prop_map(PathBuf::from), 0..5);
        let range = (any::<IpAddr>(), any::<u8>(), any::<Option<u16>>());
        let range = range.prop_map(|(address, prefix, port)| IpRange {
            address,
            prefix,
            port,
        });
        let network = prop_oneof![
            Just(Network::None),
            vec(range, 0..5).prop_map(|granted| Network::Outbound { granted }),
            text().prop_map(|it| Network::Proxy { socket: it.into() }),
        ];
        let confinement = prop_oneof![
            Just(Confinement::Required),
            Just(Confinement::BestEffort),
            Just(Confinement::Off)
        ];
        let limits = (
            any::<Option<u32>>(),
            any::<Option<u64>>(),
            any::<Option<u32>>(),
            any::<u64>(),
        );
        let limits = limits.prop_map(|(seconds, memory, count, scratch_size)| Limits {
            cpu: seconds.map(|it| Duration::from_secs(it.into())),
            memory,
            processes: count,
            open_files: count,
            file_size: memory,
            scratch_size,
        });
        let paths = [paths(), paths(), paths(), paths()];
        (confinement, network, paths, limits).prop_map(
            |(confinement, network, [read, write, protect, hide], limits)| Profile {
                confinement,
                network,
                read,
                write,
                protect,
                hide,
                limits,
            },
        )
    }

    proptest! {
        #[test]
        fn an_order_arrives_as_it_was_sent(order in order()) {
            let body = write_order(&order).unwrap();
            let view = read_order(&body).unwrap();
            prop_assert_eq!(view.program.to_bytes(), order.program.as_os_str().as_bytes());
            prop_assert_eq!(view.checked, order.checked.as_ref().map(|it| it.was));
            prop_assert_eq!(view.is_kept, order.checked.as_ref().is_some_and(|it| it.is_kept));
            prop_assert_eq!(view.cwd.to_bytes(), order.cwd.as_os_str().as_bytes());
            let args: Vec<_> = view.argv[1..].iter().map(|it| it.to_bytes().to_vec()).collect();
            let sent: Vec<_> = order.args.iter().map(|it| it.as_bytes().to_vec()).collect();
            prop_assert_eq!(args, sent);
            prop_assert_eq!(view.env.len(), order.env.len());
        }

        #[test]
        fn a_profile_arrives_as_it_was_sent(profile in profile(), why in "[a-z ]{0,20}") {
            let setup = write_setup(&write_profile(&profile).unwrap(), Tier::Landlock, &why);
            let read = read_setup(&setup).unwrap();
            prop_assert_eq!(read.profile, profile);
            prop_assert_eq!(read.why, why);
        }

        #[test]
        fn a_cut_or_changed_message_is_refused_or_read_and_never_more(
            order in order(), cut in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte: u8
        ) {
            let body = write_order(&order).unwrap();
            prop_assert!(read_order(&body[..cut.index(body.len())]).is_err());
            let mut changed = body.clone();
            let at = at.index(changed.len());
            changed[at] = byte;
            let _ = read_order(&changed);
            let _ = read_setup(&changed);
        }

        #[test]
        fn noise_is_refused(noise in vec(any::<u8>(), 0..300)) {
            let _ = read_order(&noise);
            let _ = read_setup(&noise);
            let _ = read_strength(&noise);
            let _ = read_unavailable(&noise);
            let _ = read_failed(&noise);
            let _ = read_weaker(&noise);
            let _ = read_end(&noise);
        }
    }
}
