/**
 * NeMo Relay's native library, as far as this runtime calls it: loaded on request only, and described here, so that no
 * other module depends on a package that may not be installed.
 *
 * **Gotchas**
 *
 * The library ends the whole process, without an exception, if it receives a bigint, a cycle or ten thousand levels:
 * pass only `Schema.Json` from `Sanitizer` to it. Arguments are positional; null skips one.
 *
 * Source: `relay-atof-atif.md` §3.1 and §3.2, `hermes-contract.md` §4.9.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { rethrowImport } from "../../base/platform/OptionalPackage.ts"

type Json = Schema.Json
type Maybe<A> = A | null | undefined

/** Position in a tree of scopes; scopes pushed on one stack are invisible to the others. */
export interface ScopeStack {
  readonly constructor: unknown
}

/** An agent scope that is open. */
export interface ScopeHandle {
  readonly uuid: string
}

/** A call that is open. */
export interface CallHandle {
  readonly uuid: string
}

/** Result of a tool, as the library has it. */
export interface ToolResult {
  readonly result: Json
  readonly annotation?: Json
}

/** The components of a `plugins.toml` while they are on. */
export interface Activation {
  readonly report: unknown
  readonly close: () => Promise<void>
}

/**
 * Functions of the library. Members are written as methods, because handles are opaque here and are only passed back to
 * the library.
 */
export interface Library {
  createScopeStack(): ScopeStack
  withScopeStack(stack: ScopeStack, callback: () => unknown): unknown
  pushScope(
    name: string,
    type: number,
    parent: Maybe<ScopeHandle>,
    attributes: null,
    data: null,
    metadata: Json,
    input: Json,
    micros: Maybe<number>
  ): ScopeHandle
  popScope(handle: ScopeHandle, output: Json, micros: Maybe<number>, metadata: Json): void
  event(name: string, scope: Maybe<ScopeHandle>, data: Json, metadata: Json, micros: Maybe<number>): void
  llmCall(
    provider: string,
    request: Json,
    parent: null,
    attributes: Maybe<number>,
    data: null,
    metadata: Json,
    model: Maybe<string>,
    micros: Maybe<number>
  ): CallHandle
  llmCallEnd(handle: CallHandle, response: Json, data: null, metadata: Json, micros: Maybe<number>): void
  toolCall(
    name: string,
    args: Json,
    parent: null,
    attributes: null,
    data: null,
    metadata: Json,
    callId: Maybe<string>,
    micros: Maybe<number>
  ): CallHandle
  toolCallEnd(handle: CallHandle, result: ToolResult, data: null, metadata: Json, micros: Maybe<number>): void
  /** Managed execution of model calls; older libraries have none. */
  llmCallExecuteAsync?(
    provider: string,
    request: Json,
    execute: (request: Json) => Promise<Json>,
    parent: null,
    attributes: Maybe<number>,
    data: Json,
    metadata: Json,
    model: Maybe<string>
  ): Promise<unknown>
  /** Managed execution of tool calls; older libraries have none. */
  toolCallExecuteAsync?(
    name: string,
    args: Json,
    execute: (args: Json) => Promise<ToolResult>,
    parent: null,
    attributes: null,
    data: Json,
    metadata: Json,
    callId: Maybe<string>
  ): Promise<ToolResult>
  registerEventMetadataInjector?(
    name: string,
    priority: number,
    inject: (event: Json) => Record<string, string | number | boolean>
  ): void
  deregisterEventMetadataInjector?(name: string): boolean
  flushSubscribers(): Promise<void>
  /** `file` is a `plugins.toml` in the place of the one that the user may have. */
  initialize(config: Json, file: string): Promise<Activation>
}

/** The library is not installed, or not for this machine and this Node. */
export class NoLibrary extends Schema.TaggedError<NoLibrary>("hermes-effect/observability/NoLibrary")("NoLibrary", {
  message: Schema.String,
  cause: Schema.Defect()
}) {}

/** Codes of scope types, which the library's types declare as constants that no module has. */
export const agentScope = 0

/** Bit of a model call whose answer came in pieces. */
export const streaming = 2

/** The installed library. */
export const load: Effect.Effect<Library, NoLibrary> = Effect.tryPromise({
  try: async (): Promise<Library> => await import("nemo-relay-node").catch(rethrowImport),
  catch: (cause) =>
    new NoLibrary({
      message: "NeMo Relay is not installed here: `npm install nemo-relay-node` under Node 24 or later",
      cause
    })
})
