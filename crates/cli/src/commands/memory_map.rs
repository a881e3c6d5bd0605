//! The map of the memory, and the frames, that the options of a command name.

use crate::args::space::MapArgs;
use crate::fail::Failure;
use solocore_model::Platform;
use solocore_space::geometry::Geometry;
use solocore_space::map::{Choice, Map, parse_list};
use std::path::Path;

/// The cache that a board or this machine has.
pub fn geometry(platform: Option<&str>) -> Result<Geometry, Failure> {
    Ok(match platform {
        Some(name) => Geometry::of_platform(&Platform::find(name, Path::new("."))?)?,
        None => Geometry::of_machine()?,
    })
}

/// The map that the options name. Colours that a file lacks are those of the board or the machine,
/// if they are asked for.
pub fn map_of(args: &MapArgs, colours: bool) -> Result<Map, Failure> {
    let mut map = match &args.map {
        Some(path) => Map::read(path)?,
        None => Map::default(),
    };
    if colours && map.colours.is_empty() {
        let cache = geometry(args.platform.as_deref())?;
        map.colours = cache.colours();
        if cache.assumed {
            eprintln!(
                "solocore: note: {} is taken as one slice with {} colours. If a hash spreads lines \
                    over slices, there are fewer; name a board that states them (--platform)",
                cache.name,
                map.colour_count()
            );
        }
    }
    Ok(map)
}

/// Lists as the user writes them, and the frames that they allow.
pub fn choice_of(map: &Map, colours: Option<&str>, banks: Option<&str>) -> Result<Choice, Failure> {
    let list = |option: &str, text: Option<&str>| {
        text.map(parse_list).transpose().map_err(|e| Failure::Input(format!("{option}: {e}")))
    };
    let (colours, banks) = (list("--colors", colours)?, list("--banks", banks)?);
    Ok(Choice::new(map, colours.as_deref(), banks.as_deref())?)
}
