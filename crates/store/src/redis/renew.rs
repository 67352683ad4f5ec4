//! [`Store::renew`](crate::Store::renew): extends leases.

use super::connection::parse;
use super::envelope::seconds;
use super::keys::Keys;
use super::pipeline::Command;
use super::scripts::SCRIPTS;
use super::{RedisStore, standing};
use crate::error::StoreError;
use crate::moment::Moment;
use crate::{ClaimRef, Standing};

pub(super) async fn renew(
    store: &RedisStore,
    claims: Vec<ClaimRef>,
    until: Moment,
) -> Result<Vec<Standing>, StoreError> {
    let renew_one = |claim: &ClaimRef, keys: &Keys, claim_key: &str| {
        Command::script(&SCRIPTS.renew, &[&keys.owners, &keys.index])
            .arg(claim_key)
            .arg(&claim.token)
            .arg(seconds(until))
    };
    standing::check(store, &claims, renew_one, |_, reply| parse(reply)).await
}
