/** Suites of rules for what others write, and doubles for tests of applications. */
export * as Check from "../testing/Check.ts"
export * as Conformance from "../testing/Conformance.ts"
export * as EnvironmentRules from "../testing/EnvironmentRules.ts"
export * as SessionSamples from "../testing/SessionSamples.ts"
export * as SessionStoreRules from "../testing/SessionStoreRules.ts"
export * as Replay from "../provider/Replay.ts"
export * as Scripted from "../provider/Scripted.ts"
