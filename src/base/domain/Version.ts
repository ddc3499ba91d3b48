/** The version of the runtime and the program; a test compares it with the version of the package. */

export const version = "0.1.0"

/** The value of `telemetry_schema_version` in hook payloads. */
export const observerVersion = "hermes.observer.v1"
