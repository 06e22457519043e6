//! Reads what the server says of the way in which it runs a query.

use prony_servers::mongodb::bson::{self, Value};

use super::values::MOST_NESTED;
use crate::own_query::plan_step;

/// The plan that was chosen, from the answer to `explain`.
pub(super) fn plan(answer: &[u8]) -> Option<String> {
    chosen(answer, MOST_NESTED).map(|plan| described(plan, MOST_NESTED))
}

/// Where it is depends on the command and the version.
fn chosen(answer: &[u8], most: u32) -> Option<&[u8]> {
    let inside = most.checked_sub(1)?;
    bson::fields(answer).flatten().find_map(|(name, value)| match value {
        Value::Document(plan) if name == "winningPlan" => Some(match bson::at(plan, &["queryPlan"]) {
            Some(Value::Document(inner)) => inner,
            _ => plan,
        }),
        Value::Document(inner) | Value::Array(inner) => chosen(inner, inside),
        _ => None,
    })
}

/// The steps of a plan, each before those that it reads from.
fn described(plan: &[u8], most: u32) -> String {
    let Some(inside) = most.checked_sub(1) else { return "...".to_owned() };
    let of = |value: Value<'_>| if let Value::Document(input) = value { Some(described(input, inside)) } else { None };
    let inputs: Vec<String> = match (bson::at(plan, &["inputStage"]), bson::at(plan, &["inputStages"])) {
        (Some(input), _) => of(input).into_iter().collect(),
        (_, Some(Value::Array(inputs))) => bson::fields(inputs).flatten().filter_map(|(_, input)| of(input)).collect(),
        _ => Vec::new(),
    };
    plan_step(bson::text(plan, "stage"), bson::text(plan, "indexName"), &inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_found_and_read_wherever_they_are() {
        let mut answer = Vec::new();
        bson::write(&mut answer, |out| {
            out.array("stages", |all| {
                all.document("0", |one| {
                    one.document("winningPlan", |plan| {
                        plan.text("stage", "FETCH");
                        plan.document("inputStage", |input| {
                            input.text("stage", "IXSCAN");
                            input.text("indexName", "d.a");
                        });
                    });
                });
            });
        });
        assert_eq!(plan(&answer).as_deref(), Some("FETCH of IXSCAN (d.a)"));
    }
}
