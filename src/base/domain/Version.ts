/** The version of the runtime and the program. A test checks that it equals the version in `package.json`. */

export const version = "0.1.0"

/** The value of `telemetry_schema_version` in hook payloads. */
export const observerVersion = "hermes.observer.v1"
