// A stand-in for NeMo Relay's native library: it writes down what it is asked, and does what a test wants of it.
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Schema from "effect/Schema"
import * as Ids from "../../../src/base/domain/Ids.ts"
import type { RecordEvent } from "../../../src/base/domain/RecordEvent.ts"
import * as NemoRelayPlugin from "../../../src/observe/NemoRelayPlugin.ts"
import type * as Library from "../../../src/observe/relay/Library.ts"
import { layerMemory, RunRecord } from "../../../src/store/RunRecord.ts"

type Json = Schema.Json

/** One call of the library. */
export interface Asked {
  readonly what: string
  readonly name: string
  readonly uuid: string
  readonly parent: string | undefined
  readonly data: Json
  readonly metadata: Readonly<Record<string, Json>>
  readonly micros: number | null | undefined
}

export interface Wishes {
  /** Instead of turning components on; gets how often it was asked before. */
  readonly initialize?: (before: number) => Promise<void>
  readonly close?: () => Promise<void>
  /** Around the execution of calls. */
  readonly llm?: (execute: (request: Json) => Promise<Json>, request: Json) => Promise<unknown>
  readonly tool?: (execute: (args: Json) => Promise<Library.ToolResult>, args: Json) => Promise<Library.ToolResult>
  /** Calls that this library does not have. */
  readonly lacks?: ReadonlyArray<"llmCallExecuteAsync" | "toolCallExecuteAsync">
  /** Thrown by every call that plays an event. */
  readonly refuses?: Error
  readonly diagnostics?: ReadonlyArray<{ readonly code: string; readonly message: string }>
}

const fields = (value: Json): Readonly<Record<string, Json>> => value as Readonly<Record<string, Json>>

/** What the real library makes of a callback's error. */
const internal = (error: unknown): Error =>
  Object.assign(new Error(`internal error: ${error instanceof Error ? error.message : String(error)}`), {
    code: "GenericFailure"
  })

export const make = (wishes: Wishes = {}) => {
  const asked: Array<Asked> = []
  const configs: Array<Json> = []
  const files: Array<string> = []
  let uuids = 0
  let isOn = false
  const note = (
    what: string,
    name: string,
    more: Partial<Asked> = {}
  ): { readonly uuid: string; readonly name: string } => {
    if (wishes.refuses !== undefined && what !== "flush" && what !== "close") throw wishes.refuses
    const uuid = more.uuid ?? `u${++uuids}`
    asked.push({ what, name, parent: undefined, data: null, metadata: {}, micros: undefined, ...more, uuid })
    return { uuid, name }
  }
  let stack: (ReadonlyArray<Library.ScopeHandle> & { readonly agents: Array<Library.ScopeHandle> }) | undefined
  const top = (): string | undefined => stack?.agents.at(-1)?.uuid

  const library: Library.Library = {
    createScopeStack: () => Object.assign([], { agents: [] }),
    withScopeStack: (given, run) => {
      const before = stack
      stack = given as typeof stack
      try {
        return run()
      } finally {
        stack = before
      }
    },
    pushScope: (name, _type, parent, _attributes, _data, metadata, input, micros) => {
      const handle = note("push", name, {
        parent: parent?.uuid ?? top(),
        data: input,
        metadata: fields(metadata),
        micros: micros ?? null
      })
      stack?.agents.push(handle)
      return handle
    },
    popScope: (handle, output, micros, metadata) => {
      if (top() !== handle.uuid) throw new Error("scope handle is not at the top of the stack")
      stack?.agents.pop()
      note("pop", "", { uuid: handle.uuid, data: output, metadata: fields(metadata), micros: micros ?? null })
    },
    event: (name, scope, data, metadata, micros) => {
      note("event", name, { parent: scope?.uuid, data, metadata: fields(metadata), micros: micros ?? null })
    },
    llmCall: (name, request, _parent, _bits, _data, metadata, _model, micros) =>
      note("llm", name, { parent: top(), data: request, metadata: fields(metadata), micros: micros ?? null }),
    llmCallEnd: ({ uuid }, data, _data, metadata, micros) => {
      note("llm end", "", { uuid, data, metadata: fields(metadata), micros: micros ?? null })
    },
    toolCall: (name, args, _parent, _bits, _data, metadata, _id, micros) =>
      note("tool", name, { parent: top(), data: args, metadata: fields(metadata), micros: micros ?? null }),
    toolCallEnd: ({ uuid }, { result }, _data, metadata, micros) => {
      note("tool end", "", { uuid, data: result, metadata: fields(metadata), micros: micros ?? null })
    },
    ...(wishes.lacks?.includes("llmCallExecuteAsync") === true
      ? {}
      : {
          llmCallExecuteAsync: async (name, request, execute, _parent, _bits, _data, metadata) => {
            const { uuid } = note("llm execute", name, { parent: top(), data: request, metadata: fields(metadata) })
            const run = (given: Json) => execute(given).catch((error: unknown) => Promise.reject(internal(error)))
            const value = await (wishes.llm ?? ((next, given) => next(given)))(run, request).catch((error: unknown) => {
              note("llm failed", `${name}: ${error instanceof Error ? error.message : String(error)}`, { uuid })
              throw error
            })
            note("llm executed", name, { uuid, data: value as Json })
            return value
          }
        }),
    ...(wishes.lacks?.includes("toolCallExecuteAsync") === true
      ? {}
      : {
          toolCallExecuteAsync: async (name, args, execute, _parent, _bits, _data, metadata) => {
            const { uuid } = note("tool execute", name, { parent: top(), data: args, metadata: fields(metadata) })
            const run = (given: Json) => execute(given).catch((error: unknown) => Promise.reject(internal(error)))
            const value = await (wishes.tool ?? ((next, given) => next(given)))(run, args).catch((error: unknown) => {
              note("tool failed", `${name}: ${error instanceof Error ? error.message : String(error)}`, { uuid })
              throw error
            })
            note("tool executed", name, { uuid, data: value.result })
            return value
          }
        }),
    registerEventMetadataInjector: (name) => {
      note("inject", name)
    },
    deregisterEventMetadataInjector: (name) => {
      note("stop injecting", name)
      return true
    },
    flushSubscribers: async () => {
      note("flush", "")
    },
    initialize: async (config, file) => {
      const before = configs.length
      configs.push(config)
      files.push(file)
      if (isOn) throw new Error("conflict: plugin configuration is owned by an active dynamic plugin host")
      await wishes.initialize?.(before)
      isOn = true
      note("initialize", "")
      return {
        report: { config: { diagnostics: wishes.diagnostics ?? [] } },
        close: async () => {
          isOn = false
          note("close", "")
          await wishes.close?.()
        }
      }
    }
  }
  return {
    library,
    load: Effect.succeed(library),
    asked,
    configs,
    files,
    /** What was asked, in order, without marks. */
    calls: () => asked.flatMap(({ name, what }) => (what === "event" ? [] : [name === "" ? what : `${what} ${name}`])),
    of: (what: string, name?: string) =>
      asked.filter((one) => one.what === what && (name === undefined || one.name === name))
  }
}

/** The plugin's parts outside of a runtime, and the record that a runtime has to write for them. */
export interface Opened extends NemoRelayPlugin.Parts {
  readonly record: Layer.Layer<RunRecord>
  /** Writes an event of a session's only run. */
  readonly write: (sessionId: string, ...events: ReadonlyArray<RecordEvent>) => Effect.Effect<void>
}

/** Opens the plugin over a record in memory. */
export const open = (...settings: Parameters<typeof NemoRelayPlugin.open>) =>
  Effect.gen(function* () {
    const record = Context.get(yield* Layer.build(layerMemory()), RunRecord)
    const parts = yield* Effect.provideService(NemoRelayPlugin.open(...settings), RunRecord, record)
    const write: Opened["write"] = (id, ...events) =>
      Effect.flatMap(Clock.currentTimeMillis, (at) =>
        record.append(
          events.map((event) => ({
            sessionId: Ids.SessionId.make(id),
            turnId: Ids.TurnId.make(`turn of ${id}`),
            at,
            event
          }))
        )
      )
    return { ...parts, write, record: Layer.succeed(RunRecord, record) } satisfies Opened
  })
