//! Reads what the server says of the way in which it runs a statement.

use prony_servers::postgresql::{Connection, Failure};
use serde_json::Value;

use crate::own_query::plan_step;

/// The name of the statement that is explained.
const NAME: &str = "prony_explained";

/// The plan of a statement whatever is bound to it, which sessions use too.
///
/// # Errors
/// Those of the server.
pub(super) fn plan(control: &mut Connection, sql: &str) -> Result<Option<String>, Failure> {
    control.query("SET plan_cache_mode = force_generic_plan")?;
    let explained = control.query(&format!("PREPARE {NAME} AS {sql}")).and_then(|_| explained(control));
    // Where it was not prepared there is none.
    let _ = control.query(&format!("DEALLOCATE {NAME}"));
    control.query("RESET plan_cache_mode")?;
    explained
}

fn explained(control: &mut Connection) -> Result<Option<String>, Failure> {
    let places = format!(
        "SELECT repeat('NULL, ', cardinality(parameter_types)) FROM pg_prepared_statements WHERE name = '{NAME}'"
    );
    let places = control.query(&places)?.concat().into_iter().flatten().collect::<String>();
    let places = places.strip_suffix(", ").map(|places| format!("({places})")).unwrap_or_default();
    let found = control.query(&format!("EXPLAIN (COSTS OFF, FORMAT JSON) EXECUTE {NAME}{places}"))?;
    let json = found.concat().into_iter().flatten().collect::<String>();
    let plans: Option<Value> = serde_json::from_str(&json).ok();
    Ok(plans.as_ref().and_then(|plans| plans.get(0)?.get("Plan")).map(described))
}

/// The steps of a plan, each before those that it reads from. What computes a condition is no step.
fn described(plan: &Value) -> String {
    let text = |name: &str| plan.get(name).and_then(Value::as_str);
    let is_input = |plan: &&Value| {
        !matches!(plan.get("Parent Relationship").and_then(Value::as_str), Some("SubPlan" | "InitPlan"))
    };
    let inputs = plan.get("Plans").and_then(Value::as_array).into_iter().flatten();
    let inputs: Vec<String> = inputs.filter(is_input).map(described).collect();
    plan_step(text("Node Type"), text("Index Name"), &inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_named_with_their_indexes() {
        let plan = r#"{"Node Type": "Limit", "Plans": [{"Node Type": "Bitmap Heap Scan", "Parent Relationship": "Outer", "Plans": [
            {"Node Type": "Bitmap Index Scan", "Index Name": "a_1", "Parent Relationship": "Outer"},
            {"Node Type": "Function Scan", "Parent Relationship": "SubPlan"}]}]}"#;
        assert_eq!(
            described(&serde_json::from_str(plan).unwrap()),
            "Limit of Bitmap Heap Scan of Bitmap Index Scan (a_1)"
        );
    }
}
