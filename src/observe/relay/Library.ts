/**
 * The part of NeMo Relay's native library that this runtime uses. It is loaded on request and its types are declared
 * here, so that no other module depends on a package that may not be installed.
 *
 * **Gotchas**
 *
 * The library terminates the whole process, without an exception, if it receives a bigint, a cycle or a value with ten
 * thousand levels. Pass it only `Schema.Json` values from `Sanitizer`. Arguments are positional; `null` omits an
 * argument.
 *
 * Source: `relay-atof-atif.md` §3.1 and §3.2, `hermes-contract.md` §4.9.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { rethrowImport } from "../../base/platform/OptionalPackage.ts"

type Json = Schema.Json
type Maybe<A> = A | null | undefined

/** Position in a tree of scopes. Scopes on one stack are not visible to other stacks. */
export interface ScopeStack {
  readonly constructor: unknown
}

/** Handle of an open agent scope. */
export interface ScopeHandle {
  readonly uuid: string
}

/** Handle of an open call. */
export interface CallHandle {
  readonly uuid: string
}

/** Fields of an event that a function may change. */
export interface EventFields {
  readonly data?: Json
  readonly categoryProfile?: Json
  readonly metadata?: Json
}

/** Position in a tree of scopes as plain data. */
export interface Propagation {
  readonly parentUuid: string
}

/** Result of a tool in the library's form. */
export interface ToolResult {
  readonly result: Json
  readonly annotation?: Json
}

/** Active components of a `plugins.toml`. */
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
  /** Executes a model call. Older libraries do not have this function. */
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
  /** Executes a tool call. Older libraries do not have this function. */
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
  /** Registers a function that changes the start events of scopes, without changing what is executed. */
  registerScopeSanitizeStartGuardrail?(
    name: string,
    priority: number,
    change: (event: Json, fields: EventFields) => EventFields
  ): void
  deregisterScopeSanitizeStartGuardrail?(name: string): boolean
  registerScopeSanitizeEndGuardrail?(
    name: string,
    priority: number,
    change: (event: Json, fields: EventFields) => EventFields
  ): void
  deregisterScopeSanitizeEndGuardrail?(name: string): boolean
  /** Returns the top scope of the current stack. */
  getHandle?(): ScopeHandle
  /** Returns the position of the current call, in a form that other stacks can begin from. */
  capturePropagationContextWithRoot?(root: string): Propagation
  createScopeStackFromPropagation?(position: Propagation): ScopeStack
  registerEventMetadataInjector?(
    name: string,
    priority: number,
    inject: (event: Json) => Record<string, string | number | boolean>
  ): void
  deregisterEventMetadataInjector?(name: string): boolean
  flushSubscribers(): Promise<void>
  /** Turns components on. `file` is the path of a `plugins.toml` that is used instead of the user's own file. */
  initialize(config: Json, file: string): Promise<Activation>
}

/** Failure because the library is not installed, or not available for this platform and version of Node. */
export class NoLibrary extends Schema.TaggedError<NoLibrary>("hermes-effect/observability/NoLibrary")("NoLibrary", {
  message: Schema.String,
  cause: Schema.Defect()
}) {}

/** Code of the agent scope type. The library's types declare it as a constant that no module exports. */
export const agentScope = 0

/** Attribute bit of a model call with a streamed answer. */
export const streaming = 2

/** Loads the installed library. Bundlers leave the import as it is, because the package contains native code. */
export const load: Effect.Effect<Library, NoLibrary> = Effect.tryPromise({
  try: async (): Promise<Library> =>
    await import(/* webpackIgnore: true */ /* turbopackIgnore: true */ /* @vite-ignore */ "nemo-relay-node").catch(
      rethrowImport
    ),
  catch: (cause) =>
    new NoLibrary({
      message: "NeMo Relay is not installed here: `npm install nemo-relay-node` under Node 24 or later",
      cause
    })
})
