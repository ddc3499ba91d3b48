/**
 * Types and Schemas of every hook: its payload, the fields that its emitter supplies, and the answers of its listeners.
 *
 * **Details**
 *
 * Listeners receive a payload: redacted, frozen JSON with `telemetry_schema_version`. An emitter passes `Fields`: the
 * same names without the version, and live values where the payload contains JSON.
 *
 * Hooks of the contract that do not apply to this runtime (`pre_gateway_dispatch`, `pre_verify`, the kanban family) are
 * not listed; a plugin that registers one receives a notice.
 *
 * **Example** (Validating a received payload)
 *
 * ```ts
 * import { Payloads } from "hermes-effect"
 *
 * console.log(Payloads.isHookName("post_tool_call"), Payloads.isHookName("after_tool"))
 * // => true false
 * console.log(Object.keys(Payloads.schemas).length === Payloads.names.length)
 * // => true
 * ```
 *
 * Source: the observer document, `hermes-contract.md` §2.2, §2.3 and §2.6.
 */
import type * as JsonSchema from "effect/JsonSchema"
import * as Record from "effect/Record"
import * as Schema from "effect/Schema"
import type { Rule } from "./Answers.ts"
import { type liveFields, table } from "./PayloadTable.ts"
import { observerVersion } from "../base/domain/Version.ts"

export type { Approve, Block } from "./Answers.ts"

type Table = typeof table

/** The name of a hook. */
export type HookName = keyof Table

type EventsOf = { readonly [Name in HookName]: Table[Name]["payload"]["Type"] }

/** The payload of each hook. */
export interface HookEvents extends EventsOf {}

// The object is built from all rows of the table, whose set of names is fixed.
/** The Schema of each payload. */
export const schemas = Record.map(table, ({ payload }) => payload) as {
  readonly [Name in HookName]: Table[Name]["payload"]
}

// `Object.keys` is typed `string[]`, but the table has a fixed set of names.
/** All hook names, in the order in which the hooks occur in a session. */
export const names = Object.keys(table) as ReadonlyArray<HookName>

/** Tests whether this runtime emits a hook with this name. */
export const isHookName = (name: string): name is HookName => Object.hasOwn(table, name)

/**
 * Creates the JSON Schema document (draft 2020-12) of one payload, for consumers that are not written in TypeScript.
 */
export const makeJsonSchema = (name: HookName): JsonSchema.JsonSchema => {
  const { definitions, schema } = Schema.toJsonSchemaDocument(schemas[name])
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    $id: `${observerVersion}/${name}`,
    title: name,
    ...schema,
    ...(Object.keys(definitions).length === 0 ? {} : { $defs: definitions })
  }
}

/** The name of a hook whose answers change the run. */
export type AskName = { [Name in HookName]: Table[Name] extends { readonly answer: unknown } ? Name : never }[HookName]

type RuleOf<Name extends AskName> = Table[Name]["answer"]

type ReturnsOf = { readonly [Name in AskName]: RuleOf<Name> extends Rule<infer Returned, infer _> ? Returned : never }

/** Answers that a listener may return; returning nothing is always allowed. */
export interface HookReturns extends ReturnsOf {}

type MergedOf = { readonly [Name in AskName]: RuleOf<Name> extends Rule<infer _, infer A> ? A | undefined : never }

/** Merged answer of each hook, `undefined` if no listener answered. */
export interface Answers extends MergedOf {}

/** Fields that an emitter passes for a hook, before they are copied and redacted. */
export type Fields<Name extends HookName> = FieldsOf<Omit<HookEvents[Name], "telemetry_schema_version">>

type FieldsOf<Payload> = {
  readonly [K in keyof Payload as undefined extends Payload[K] ? never : K]: Live<K, Payload[K]>
} & { readonly [K in keyof Payload as undefined extends Payload[K] ? K : never]?: Live<K, Payload[K]> | undefined }

type Live<Key, Value> = Key extends keyof typeof liveFields ? unknown : Value
