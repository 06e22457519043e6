//! What the drivers of servers have in common: the URL of a store, and settings that the server reports.

use prony_model::record::effective::{NamedSettings, Setting};
use prony_model::spec::StoreSpec;

use crate::driver::{EngineError, Settings, StoreFault};
use crate::failure::failed;
use crate::options::Config;

/// The settings of a store as they were `configured`, or these faults and that of its URL, which `parse` reads; `example` is one.
pub(crate) fn check<A, F: Into<String>>(
    spec: &StoreSpec,
    configured: Result<Config, Vec<StoreFault>>,
    parse: fn(&str) -> Result<A, F>,
    example: &str,
) -> Result<Settings, Vec<StoreFault>> {
    let fault = spec.url.as_deref().and_then(|url| parse(url).err()).map(|message| StoreFault {
        option: Some("url".to_owned()),
        message: message.into(),
        hint: Some(format!("write `url = \"{example}\"`")),
    });
    match (configured, fault) {
        (Ok(config), None) => Ok(config.settings()),
        (configured, fault) => Err(fault.into_iter().chain(configured.err().unwrap_or_default()).collect()),
    }
}

/// The address in the URL of a store.
pub(crate) fn address<A, F: Into<String>>(
    engine: &'static str,
    spec: &StoreSpec,
    parse: fn(&str) -> Result<A, F>,
) -> Result<A, EngineError> {
    let url = spec.url.as_deref().ok_or_else(|| failed(engine, "opening the store", "the store has no `url`"))?;
    parse(url).map_err(|fault| failed(engine, "reading the URL", fault.into() as String))
}

/// A text among what a server reports.
pub(crate) fn text<'s>(read_back: &'s NamedSettings, name: &str) -> Option<&'s str> {
    if let Some(Setting::Text(text)) = read_back.get(name) { Some(text) } else { None }
}

/// What a server does not offer: the durability class of a store, which follows from the server's settings with these names.
#[allow(dead_code)] // the class of MongoDB follows from no setting of the server
pub(crate) fn misfit(config: &Config, read_back: &NamedSettings, names: [&str; 3], advice: &str) -> String {
    let shown = names.map(|name| {
        text(read_back, name).map_or_else(|| format!("{name} is not known"), |value| format!("{name} = {value}"))
    });
    let (class, shown) = (config.class.name(), shown.join(", "));
    format!("durability `{class}`: the server has {shown} (hint: {advice})")
}
