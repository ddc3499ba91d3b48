/**
 * Modes in which an agent asks its model, each played with a scripted model whose answer contains a secret: for an
 * application, for a row of a dataset, for a client over HTTP, for an editor, and for the calls that a run makes
 * besides its first one.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../agent/Agent.ts"
import type { RunOptions } from "../../agent/RunInput.ts"
import type { BackgroundWork } from "../../agent/BackgroundWork.ts"
import * as Ids from "../../base/domain/Ids.ts"
import * as ChildProcesses from "../../base/platform/ChildProcesses.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import type { Hook } from "../../hooks/Hook.ts"
import type { Hooks } from "../../hooks/Hooks.ts"
import { Provider, type Service as ProviderService } from "../../models/provider/Provider.ts"
import * as Scripted from "../../models/provider/Scripted.ts"
import { Auxiliary } from "../../models/routing/Auxiliary.ts"
import type { ModelRouter } from "../../models/routing/ModelRouter.ts"
import * as RetryPolicy from "../../models/routing/RetryPolicy.ts"
import * as Runtime from "../../program/Runtime.ts"
import * as LiveSession from "../../serve/host/LiveSession.ts"
import * as AcpAgent from "../../serve/server/acp/AcpAgent.ts"
import * as AgentServer from "../../serve/server/agent/AgentServer.ts"
import type { RunRecord } from "../../store/RunRecord.ts"
import type { SessionStore } from "../../store/SessionStore.ts"
import { makeOverloadedError } from "./PlayedRuns.ts"
import * as Delegate from "../../tools/builtin/Delegate.ts"
import type { ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as Toolset from "../../tools/Toolset.ts"

/** Services of a runtime that the modes use. `Runtime.layer` provides them all. */
export type ModeServices =
  | Agent.Agent
  | Auxiliary
  | BackgroundWork
  | Hooks
  | LanguageModel.LanguageModel
  | ModelRouter
  | RunRecord
  | SessionStore
  | ToolRegistry

/** Parts of a runtime that every mode provides. */
interface CommonParts {
  readonly tools: ReadonlyArray<Toolset.Toolset>
  readonly hooks: ReadonlyArray<Hook>
  readonly retry: RetryPolicy.RetryPolicy
  readonly maxIterations: number
}

/**
 * Parts of a runtime that a mode provides: pass all of them to `Runtime.layer`. A mode has one provider, or the routes
 * of a fallback.
 */
export type ModeParts = CommonParts &
  (
    | { readonly provider: Layer.Layer<Provider>; readonly routes?: undefined }
    | { readonly routes: ReadonlyArray<Runtime.ModelRoute>; readonly provider?: undefined }
  )

/** Creates a runtime from the parts of a mode. */
export interface MakeModeRuntime {
  (parts: ModeParts): Layer.Layer<ModeServices, unknown>
}

/** Everything that a mode showed to its user or client, as texts. */
export type Shown = ReadonlyArray<string>

/** One mode. */
export interface Mode {
  readonly name: string
  /** Turns of the model. Each is used once. */
  readonly turns: (secret: ReadonlyArray<string>) => ReadonlyArray<Scripted.Turn>
  readonly maxIterations?: number
  /** Number of calls of the tool `note`. */
  readonly notes?: number
  /** True for a mode whose first route does not answer. */
  readonly hasFallback?: boolean
  readonly play: Effect.Effect<Shown, unknown, ModeServices | Scope.Scope>
}

const makeBrokenError = () =>
  new AiError.NetworkError({ reason: "TransportError", method: "POST", url: "", description: "the connection broke" })

const makeReply = (secret: ReadonlyArray<string>): Scripted.Reply => ({ pieces: ["It is ", ...secret, " today."] })
const makeAnswer = (secret: ReadonlyArray<string>) => Scripted.complete(makeReply(secret))
/** The answer, and the title of a new session, which is a side task. */
const makeAnswerAndTitle = (secret: ReadonlyArray<string>) => [makeAnswer(secret), makeAnswer(secret)]
const makeNoteCall = (said: Scripted.Reply = {}) =>
  Scripted.complete({ ...said, toolCalls: [{ name: "note", params: { text: "a" } }] })

/** Returns the texts of an event, so that a text that is cut between events is found in the joined texts. */
const readDelta = (event: RunEvent): string =>
  event._tag === "TextDelta" || event._tag === "ReasoningDelta" || event._tag === "TextReplaced" ? event.text : ""

/** Runs the agent, and returns its events and its text. */
const runAgent = (options: Partial<RunOptions>): Mode["play"] =>
  Effect.gen(function* () {
    const events: Array<RunEvent> = []
    const { text } = yield* Agent.run({
      prompt: "Say it.",
      ...options,
      onEvent: (more) => Effect.sync(() => void events.push(...more))
    })
    return [text, JSON.stringify(events), events.map(readDelta).join("")]
  })

const joinMatches = (body: string, pattern: RegExp): string =>
  Array.from(body.matchAll(pattern), ([, text = ""]) => text).join("")

/** Asks the agent as a client of OpenAI's API does. */
const askServer = (stream: boolean): Mode["play"] =>
  Effect.gen(function* () {
    const { key, url } = yield* AgentServer.serve({ port: 0, cwd: "/" })
    const body = yield* Effect.promise(async () => {
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          ...(key === undefined ? {} : { authorization: `Bearer ${Redacted.value(key)}` })
        },
        body: JSON.stringify({ model: "hermes", stream, messages: [{ role: "user", content: "Say it." }] })
      })
      return await response.text()
    })
    return [body, joinMatches(body, /"content":"((?:[^"\\]|\\.)*)"/g)]
  })

/** Asks the agent as an editor does, over the Agent Client Protocol. */
const askAsEditor: Mode["play"] = Effect.gen(function* () {
  const services = yield* Effect.context<ModeServices>()
  const lines = new TransformStream<Uint8Array, Uint8Array>()
  const writer = lines.writable.getWriter()
  const ended = new Map<number, (answer: unknown) => void>()
  let written = ""
  let unread = ""
  const host: AcpAgent.AcpHost = {
    open: ({ cwd, id }) =>
      Effect.map(
        LiveSession.make({ session: { id, cwd }, cwd, mode: "ask", input: { source: "acp", platform: "acp" } }),
        (live) => ({
          live,
          cwd,
          changes: Effect.succeed([]),
          models: Effect.succeed([]),
          commands: [],
          notices: [],
          window: Effect.undefined
        })
      ).pipe(Effect.provideContext(services)),
    list: Effect.succeed([]),
    find: () => Effect.undefined,
    fork: Effect.succeed,
    remove: () => Effect.void
  }
  yield* AcpAgent.serve(host, {
    input: Stream.fromReadableStream({ evaluate: () => lines.readable, onError: () => "broken" }),
    write: (text) => {
      written += text
      unread += text
      const whole = unread.split("\n")
      unread = whole.pop() ?? ""
      for (const line of whole) {
        const message: unknown = JSON.parse(line)
        if (typeof message === "object" && message !== null && "id" in message && !("method" in message))
          ended.get(Number(message.id))?.(Reflect.get(message, "result"))
      }
    }
  }).pipe(Effect.provide(ChildProcesses.layerDefault()), Effect.forkScoped)
  let count = 0
  const sendRequest = (method: string, params: object) =>
    Effect.promise(
      () =>
        new Promise<unknown>((resolve) => {
          const id = ++count
          ended.set(id, resolve)
          void writer.write(new TextEncoder().encode(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`))
        })
    )
  yield* sendRequest("initialize", { protocolVersion: 1, clientCapabilities: {} })
  const session = yield* sendRequest("session/new", { cwd: "/", mcpServers: [] })
  const sessionId = typeof session === "object" && session !== null ? Reflect.get(session, "sessionId") : undefined
  yield* sendRequest("session/prompt", { sessionId, prompt: [{ type: "text", text: "Say it." }] })
  return [written, joinMatches(written, /"text":"((?:[^"\\]|\\.)*)"/g)]
})

const makePrompt = (text: string) => [Prompt.userMessage({ content: [Prompt.textPart({ text })] })]

const askSideTask: Mode["play"] = Effect.gen(function* () {
  const sessionId = yield* Ids.makeSessionId
  const taskId = Ids.TaskId.make(sessionId)
  const turnId = yield* Ids.makeTurnId(sessionId, taskId)
  const { text } = yield* Auxiliary.use(({ call }) =>
    call("example", { messages: makePrompt("Summarize."), context: { sessionId, taskId, turnId } })
  )
  return [text]
})

const askLanguageModel: Mode["play"] = Effect.map(LanguageModel.generateText({ prompt: "Say it." }), ({ text }) => [
  text
])

const streamLanguageModel: Mode["play"] = Effect.suspend(() => {
  const texts: Array<string> = []
  return LanguageModel.streamText({ prompt: "Say it." }).pipe(
    Stream.runForEach((part) => Effect.sync(() => void (part.type === "text-delta" && texts.push(part.delta)))),
    Effect.map(() => [texts.join("")])
  )
})

/** A mode in two forms: the answers of the model stream, or arrive whole. */
const inBothForms = (name: string, mode: Omit<Mode, "name" | "play">): ReadonlyArray<Mode> =>
  [true, false].map((streaming) => ({
    ...mode,
    name: `${name}, ${streaming ? "streamed" : "not streamed"}`,
    play: runAgent({ streaming })
  }))

/** All modes. */
export const modes: ReadonlyArray<Mode> = [
  ...inBothForms("chat", { turns: (secret) => [makeAnswer(secret)] }),
  ...["batch", "eval"].map((platform) => ({
    name: platform,
    turns: (secret: ReadonlyArray<string>) => [makeAnswer(secret)],
    play: runAgent({ streaming: false, readsText: false, source: platform, platform })
  })),
  { name: "serve, streamed", turns: makeAnswerAndTitle, play: askServer(true) },
  { name: "serve, not streamed", turns: makeAnswerAndTitle, play: askServer(false) },
  { name: "acp", turns: makeAnswerAndTitle, play: askAsEditor },
  ...inBothForms("tool call", { turns: (secret) => [makeNoteCall(makeReply(secret)), makeAnswer(secret)], notes: 1 }),
  ...inBothForms("child", {
    turns: (secret) => [
      Scripted.complete({ toolCalls: [{ name: "delegate_task", params: { goal: "Find it." } }] }),
      makeAnswer(secret),
      makeAnswer(secret)
    ]
  }),
  ...inBothForms("retry", {
    turns: (secret) => [Scripted.fail(makeOverloadedError(), makeReply(secret)), makeAnswer(secret)]
  }),
  {
    name: "continuation of a broken stream",
    turns: (secret) => [
      Scripted.fail(makeBrokenError(), makeReply(secret)),
      Scripted.complete({ pieces: [" And ", ...secret] })
    ],
    play: runAgent({ streaming: true })
  },
  ...inBothForms("continuation at the output limit", {
    turns: (secret) => [Scripted.complete({ ...makeReply(secret), finishReason: "length" }), makeAnswer(secret)]
  }),
  ...inBothForms("fallback", { turns: (secret) => [makeAnswer(secret)], hasFallback: true }),
  ...inBothForms("summary at a limit", {
    turns: (secret) => [makeNoteCall(), makeAnswer(secret)],
    maxIterations: 1,
    notes: 1
  }),
  { name: "side task", turns: (secret) => [makeAnswer(secret)], play: askSideTask },
  { name: "language model, not streamed", turns: (secret) => [makeAnswer(secret)], play: askLanguageModel },
  { name: "language model, streamed", turns: (secret) => [makeAnswer(secret)], play: streamLanguageModel }
]

const Note = Tool.make("note", {
  description: "Takes a note",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
})
const toolkit = Toolkit.make(Note)

/** Counters of a played mode. */
export interface ModeCounts {
  readonly requests: () => number
  readonly notes: () => number
}

/** Serves a model over HTTP for a fallback: the second route of the mode. */
const serveModel = (provider: ProviderService) =>
  Effect.gen(function* () {
    const services = yield* Layer.build(
      Runtime.layer({ provider: Layer.succeed(Provider, provider), retry: RetryPolicy.none })
    )
    // Without side tasks no titles are requested.
    const served = Context.omit(Auxiliary)(services)
    const { key, url } = yield* Effect.provideContext(AgentServer.serve({ port: 0, cwd: "/" }), served)
    return { provider: "custom", model: "hermes", baseUrl: `${url}/v1`, apiKey: key ?? Redacted.make("none") }
  })

/** Nothing listens at this address. */
const deadRoute = { provider: "custom", model: "away", baseUrl: "http://127.0.0.1:9/v1", apiKey: Redacted.make("key") }

/** Creates the parts of a mode, whose model says the secret in these pieces. */
export const makeParts = Effect.fnUntraced(function* (
  { hasFallback = false, maxIterations = 10, turns }: Mode,
  secret: ReadonlyArray<string>,
  hooks: ReadonlyArray<Hook>
) {
  const { provider } = yield* Scripted.make(turns(secret))
  const counts = { requests: 0, notes: 0 }
  const counting: ProviderService = {
    ...provider,
    execute: (request, options) =>
      Effect.suspend(() => {
        counts.requests++
        return provider.execute(request, options)
      })
  }
  const handlers = toolkit.toLayer({ note: () => Effect.sync(() => `noted ${++counts.notes}`) })
  const common: CommonParts = {
    tools: [Toolset.make("notes", toolkit, handlers), Delegate.toolset],
    hooks,
    retry: Schedule.exponential("1 millis").pipe(RetryPolicy.onlyRetryable, RetryPolicy.attempts(2)),
    maxIterations
  }
  const parts: ModeParts = hasFallback
    ? { ...common, retry: RetryPolicy.none, routes: [deadRoute, yield* serveModel(counting)] }
    : { ...common, provider: Layer.succeed(Provider, counting) }
  const read: ModeCounts = { requests: () => counts.requests, notes: () => counts.notes }
  return { parts, counts: read }
})
