// Runs of a plan: a runtime with a scripted model or a real server, tools, plugins and a session database, and what is
// left of it.
import { assert } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { copyFileSync, cpSync, existsSync, mkdirSync } from "node:fs"
import type { ServerResponse } from "node:http"
import { dirname } from "node:path"
import { DatabaseSync } from "node:sqlite"
import {
  Agent,
  Annotations,
  Approvals,
  Delegate,
  Hooks,
  Ids,
  Middleware,
  Provider,
  RunRecord,
  Runtime,
  Scripted,
  SessionStore,
  Toolset
} from "../../src/index.ts"
import type { RecordEvent } from "../../src/kit/entry/observability.ts"
import { Auxiliary, CompactionPort } from "../../src/kit/entry/routing.ts"
import * as Secrets from "../../src/base/domain/Secrets.ts"
import * as Catalogue from "../../src/models/routing/Catalogue.ts"
import * as TraceSettings from "../../src/observe/TraceSettings.ts"
import * as TracePlugin from "../../src/observe/TracePlugin.ts"
import { NestedCalls, ToolContext } from "../../src/tools/ToolContext.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { heldSecret, type Move, type Plan, type PlannedRun, picture, type RoutedMode } from "./generatedPlans.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"
import { cutStream, protocols, type WireTurn } from "./wireModel.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"

const Text = Schema.Struct({ text: Schema.String })
const Echo = Tool.make("echo", { description: "Says it again", parameters: Text, success: Schema.String }).annotate(
  Tool.Readonly,
  true
)
const Note = Tool.make("note", { parameters: Text, success: Schema.String }).annotate(Annotations.PathArguments, [
  "text"
])
const Fails = Tool.make("fails", { parameters: Text, success: Schema.String, failure: Schema.String })
const Dies = Tool.make("dies", { parameters: Text, success: Schema.String }).annotate(Tool.Readonly, true)
const Wipe = Tool.make("wipe", { parameters: Text, success: Schema.String }).annotate(Tool.Destructive, true)
const Waits = Tool.make("waits", { parameters: Text, success: Schema.String })
/** Cannot be interrupted, and gives its result after the record of an interrupted run ended. */
const Lingers = Tool.make("lingers", { parameters: Text, success: Schema.String })
const Draws = Tool.make("draws", {
  parameters: Text,
  success: Schema.String,
  toModelOutput: (text) => [Prompt.textPart({ text }), Prompt.filePart({ mediaType: "image/gif", data: picture })]
})
/** Calls `echo` as a script of the model does. */
const Script = Tool.make("script", {
  parameters: Schema.Struct({ texts: Schema.Array(Schema.String) }),
  success: Schema.String,
  dependencies: [ToolContext]
})
const toolkit = Toolkit.make(Echo, Note, Fails, Dies, Wipe, Waits, Lingers, Draws, Script)

const script = ({ texts }: { readonly texts: ReadonlyArray<string> }) =>
  Effect.gen(function* () {
    const run = yield* NestedCalls
    if (run === undefined) return "none"
    const said = yield* Effect.forEach(texts, (text, index) =>
      run(Prompt.toolCallPart({ id: `nested-${index}`, name: "echo", params: { text }, providerExecuted: false }))
    )
    return said.map(({ output }) => String(output)).join(",")
  })

/** Addresses of the protocols on one server. */
const addressOf = (url: string, mode: RoutedMode): string => (mode === "anthropic_messages" ? url : `${url}/v1`)

/** Messages that a provider was asked with, in order. */
export interface Asked {
  /** Number of the run that was under way. */
  readonly run: number
  /** The first session of the conversation; undefined of a side task. */
  readonly conversationId: string | undefined
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly info: Provider.Service["info"]
}

/** The outcome of a plan. */
export interface Outcome {
  readonly plan: Plan
  readonly path: string
  /** Directory of the files that the exporters wrote while the runs went on: `events.jsonl`, `<session>.json`. */
  readonly files: string
  readonly sessionId: Ids.SessionId
  /** Empty of a plan with routes. */
  readonly asked: ReadonlyArray<Asked>
  /** As a listener heard them. */
  readonly heard: ReadonlyArray<RecordEvent.Entry>
  readonly stored: ReadonlyArray<RecordEvent.Entry>
  readonly sessions: ReadonlyArray<SessionStore.Session>
  readonly messages: ReadonlyMap<string, ReadonlyArray<Prompt.Message>>
  /** The process of a run died in it. */
  readonly isDead: boolean
}

/** The first session of the conversation that a session belongs to. */
export const conversationOf = (sessions: ReadonlyArray<SessionStore.Session>, id: string): string => {
  const before = sessions.find((one) => one.id === id)?.continues
  return before === undefined ? id : conversationOf(sessions, before)
}

/** Questions without those of the run that died which it had not recorded yet, or asked after its death. */
const answerable = (
  asked: ReadonlyArray<Asked>,
  stored: ReadonlyArray<RecordEvent.Entry>,
  conversationOf: (sessionId: string) => string,
  dies: number | undefined
): ReadonlyArray<Asked> => {
  const ended = new Set(stored.flatMap(({ event, turnId }) => (event._tag === "RunEnded" ? [turnId] : [])))
  const left = new Map<string, number>()
  for (const { event, sessionId, turnId } of stored) {
    if (event._tag !== "AttemptStarted" || ended.has(turnId)) continue
    const key = event.task === undefined ? conversationOf(sessionId) : ""
    left.set(key, (left.get(key) ?? 0) + 1)
  }
  const cut = new Set(stored.flatMap(({ sessionId, turnId }) => (ended.has(turnId) ? [] : [conversationOf(sessionId)])))
  return asked.filter(({ conversationId = "", run }) => {
    // A child that was over has all its questions in the record.
    if (
      run !== dies ||
      (conversationId !== "" && !cut.has(conversationId) && stored.some((entry) => entry.sessionId === conversationId))
    )
      return true
    const more = left.get(conversationId) ?? 0
    left.set(conversationId, more - 1)
    return more > 0
  })
}

/** A conversation is compacted where the window of its model is known. */
const knownModel = "gpt-5"

const recording = <E>(
  inner: Layer.Layer<Provider.Provider, E>,
  asked: Array<Asked>,
  model: string | undefined,
  number: () => number
) =>
  Layer.effect(
    Provider.Provider,
    Effect.map(Provider.Provider, (provider) => {
      const info = model === undefined ? provider.info : { ...provider.info, model }
      return Provider.Provider.of({
        ...provider,
        info,
        prepare: (call) => {
          asked.push({ run: number(), conversationId: call.conversationId, messages: [...call.messages], info })
          return provider.prepare(call)
        }
      })
    })
  ).pipe(Layer.provide(inner))

/** Puts a note in the place of what came before the newest words of the user. */
const compaction = (): CompactionPort.Service => {
  let count = 0
  return {
    trigger: () => 1,
    leastMessages: 4,
    compact: ({ messages }) =>
      Effect.sync(() => {
        const head = messages.filter(({ role }) => role === "system").slice(0, 1)
        const from = messages.findLastIndex(({ role }) => role === "user")
        if (from <= head.length + 1) return messages
        return [
          ...head,
          Prompt.userMessage({ content: [Prompt.textPart({ text: `note#${++count}# of ${from} messages` })] }),
          ...messages.slice(from)
        ]
      })
  }
}

/** Tells of each write to a store, as it begins. */
const watched = <R>(layer: Layer.Layer<SessionStore.SessionStore | R>, touched: () => void) =>
  Layer.unwrap(
    Effect.map(Layer.build(layer), (context) => {
      const store = Context.get(context, SessionStore.SessionStore)
      const told =
        <Args extends ReadonlyArray<unknown>, A, E>(f: (...args: Args) => Effect.Effect<A, E>) =>
        (...args: Args) =>
          Effect.suspend(() => {
            touched()
            return f(...args)
          })
      return Layer.succeedContext(
        Context.add(context, SessionStore.SessionStore, {
          ...store,
          append: told(store.append),
          begin: told(store.begin),
          recordUsage: told(store.recordUsage)
        })
      )
    })
  )

const scriptedTurn = (move: Move): Scripted.Turn => {
  switch (move.kind) {
    case "refuse":
      return Scripted.fail(
        move.status === 401
          ? new AiError.AuthenticationError({ kind: "InvalidKey" })
          : new AiError.InternalProviderError({ description: "busy" })
      )
    case "hang":
      return Scripted.hang(move.text === "" ? {} : { text: move.text })
    case "break":
      return Scripted.fail(new AiError.InternalProviderError({ description: "lost" }), { text: move.turn.text ?? "" })
    case "say": {
      const { calls = [], cut, text, thought } = move.turn
      return Scripted.complete({
        ...(text === undefined ? {} : { text }),
        ...(thought === undefined ? {} : { reasoning: thought }),
        ...(cut ? { finishReason: "length" as const } : {}),
        toolCalls: calls.map(({ args, id, name }) => ({ id, name, params: args })),
        usage: { input: 7, output: 3 }
      })
    }
  }
}

/** A model that makes the moves of a run, then says that it is done. */
const modelOf = (plan: Plan, onHang: () => void) =>
  Effect.gen(function* () {
    let moves: ReadonlyArray<Move> = []
    let made = 0
    const next = (): Move => moves[made++] ?? { kind: "say", turn: { text: `done ${made}` } }
    const begin = (run: PlannedRun) => {
      moves = run.moves
      made = 0
    }
    if (plan.mode === "scripted") {
      const shell = yield* Scripted.make([])
      const layer = Layer.succeed(
        Provider.Provider,
        Provider.Provider.of({
          ...shell.provider,
          execute: (request, options) =>
            Effect.suspend(() => {
              const move = next()
              if (move.kind === "hang") onHang()
              return Effect.flatMap(Scripted.make([scriptedTurn(move)]), ({ provider }) =>
                provider.execute(request, options)
              )
            })
        })
      )
      return { begin, layer, url: "" }
    }
    const own = protocols[plan.mode]
    /** The protocol of an address. */
    const protocolOf = (url: string) =>
      plan.routes === undefined
        ? own
        : protocols[
            url.includes("/chat/completions")
              ? "chat_completions"
              : url.includes("/messages")
                ? "anthropic_messages"
                : "codex_responses"
          ]
    const answer = (protocol: typeof own, turn: WireTurn, streams: boolean, response: ServerResponse) => {
      if (streams) protocol.stream(turn, response)
      else HttpServer.json(response, 200, protocol.whole(turn))
    }
    const server = yield* HttpServer.make(({ body, url }, response) => {
      // A route asks the server what it is, and for its models.
      if (!/\/(?:chat\/completions|messages|responses|converse|converse-stream)$/u.test(url.split("?")[0] ?? ""))
        return HttpServer.json(response, 404, { error: { message: "not found" } })
      const streams = /"stream":true/.test(body) || url.includes("converse-stream")
      const move = next()
      const protocol = protocolOf(url)
      switch (move.kind) {
        case "refuse":
          return HttpServer.json(response, move.status, { error: { message: "not now", type: "error" } })
        case "hang":
          return onHang()
        case "break":
          return streams
            ? void cutStream(protocol, move.turn, response, 0.5, move.how)
            : answer(protocol, move.turn, streams, response)
        case "say":
          return answer(protocol, move.turn, streams, response)
      }
    })
    return { begin, layer: Layer.orDie(own.layer(server.url)), url: server.url }
  })

/** The agent as the exporters are told of it; its version is in the record. */
export const exported = { name: "Hermes Test" }

/** Runs a plan with a session database. */
export const runPlan = (plan: Plan) =>
  Effect.gen(function* () {
    let path = `${yield* temporaryDirectory}/state.db`
    let files = yield* temporaryDirectory
    let number = -1
    let isDead = false
    const asked: Array<Asked> = []
    const heard: Array<RecordEvent.Entry> = []
    let hanging = Promise.withResolvers<void>()
    const { begin, layer, url } = yield* modelOf(plan, () => hanging.resolve())
    const tools = Toolset.make(
      "generated",
      toolkit,
      toolkit.toLayer({
        echo: ({ text }) => Effect.succeed(`${text} again`),
        note: ({ text }) => Effect.as(Effect.sleep(1), `noted ${text}`),
        fails: ({ text }) => Effect.fail(`cannot ${text}`),
        dies: () => Effect.die(new Error("broken")),
        wipe: ({ text }) => Effect.succeed(`wiped ${text}`),
        waits: () =>
          Effect.andThen(
            Effect.sync(() => hanging.resolve()),
            Effect.never
          ),
        lingers: ({ text }) =>
          Effect.uninterruptible(
            Effect.andThen(
              Effect.sync(() => hanging.resolve()),
              Effect.as(Effect.sleep(400), `late ${text}`)
            )
          ),
        draws: ({ text }) => Effect.succeed(`drawn ${text}`),
        script
      })
    )
    let touched = () => {}
    const runtime = () =>
      Runtime.layer({
        ...(plan.routes === undefined
          ? { provider: recording(layer, asked, plan.compacts ? knownModel : undefined, () => number) }
          : {
              routes: plan.routes.map((apiMode, index) => ({
                provider: "custom",
                model: `m${index}`,
                baseUrl: addressOf(url, apiMode),
                apiMode,
                apiKey: Redacted.make("k")
              }))
            }),
        tools: [tools, Delegate.toolset],
        store: watched(SessionStore.layerSqlite({ path }), () => touched()),
        approvals: Approvals.layerCallback(() => Effect.succeed(plan.approves)),
        hooks: plan.withContext ? [Hooks.on("pre_llm_call", () => Effect.succeed("context of a plugin"))] : [],
        middleware: [
          ...(plan.rewritesRequests
            ? [
                Middleware.llmRequest({
                  name: "r",
                  rewrite: (request) => Effect.succeed(Middleware.replacePayload({ ...request, user: "u" }))
                })
              ]
            : []),
          ...(plan.rewritesArguments
            ? [
                Middleware.toolRequest({
                  name: "a",
                  rewrite: (args) =>
                    Effect.succeed(
                      "text" in args
                        ? Middleware.replacePayload({ ...args, text: `changed ${String(args["text"])}` })
                        : Middleware.unchanged
                    )
                })
              ]
            : []),
          ...(plan.addsMessages
            ? [
                Middleware.wrapModelCall({
                  name: "m",
                  wrap:
                    (next) =>
                    ({ call, ...rest }) =>
                      next({
                        ...rest,
                        call: {
                          ...call,
                          messages: [
                            ...call.messages,
                            Prompt.userMessage({ content: [Prompt.textPart({ text: "remember the rules" })] })
                          ]
                        }
                      })
                })
              ]
            : [])
        ],
        plugins: [
          TracePlugin.make({
            agent: exported,
            atof: { directory: files, filename: "events.jsonl", mode: "append" },
            atif: {
              directory: files,
              filenameTemplate: "{session_id}.json",
              subagents: "embedded",
              agentName: exported.name
            }
          })
        ],
        retry: RetryPolicy.make({ base: 0, cap: 0 })
      }).pipe(
        // A machine that is busy with other things writes late, and all the same.
        Layer.provide(Layer.succeed(TraceSettings.FlushDeadline, Duration.seconds(60))),
        Layer.provide(
          plan.compacts
            ? Layer.mergeAll(
                Layer.succeed(CompactionPort.CompactionPort, compaction()),
                Layer.succeed(Catalogue.Catalogue, Catalogue.makeBundled())
              )
            : Layer.empty
        )
      )
    const sessionId = Ids.SessionId.make("generated")
    const listening = yield* Effect.scope
    /** Goes on elsewhere with what is on the disk now, as after the death of this process. */
    const die = (): void => {
      isDead = true
      const next = `${dirname(path)}/next`
      mkdirSync(next)
      for (const ending of ["", "-wal"])
        if (existsSync(`${path}${ending}`)) copyFileSync(`${path}${ending}`, `${next}/state.db${ending}`)
      cpSync(files, `${next}/files`, { recursive: true })
      path = `${next}/state.db`
      files = `${next}/files`
      // The owner of the lease is this process, which lives.
      const database = new DatabaseSync(path)
      database.exec("DELETE FROM leases")
      database.close()
    }
    const inRuntime = (runs: ReadonlyArray<PlannedRun>) =>
      Effect.gen(function* () {
        const record = yield* RunRecord.RunRecord
        const agent = yield* Agent.Agent
        const auxiliary = yield* Auxiliary.Auxiliary
        const store = yield* SessionStore.SessionStore
        // The end of the runtime is heard too.
        const own = number + 1
        yield* Scope.provide(
          record.listen((entries) => {
            if (!isDead || own !== plan.dies) heard.push(...entries)
          }),
          listening
        )
        for (const run of runs) {
          number++
          begin(run)
          hanging = Promise.withResolvers<void>()
          const { prompt } = run
          const fiber = yield* Effect.forkChild(
            agent.run({
              prompt,
              sessionId,
              maxIterations: run.maxIterations,
              streaming: plan.streaming,
              onEvent: () => Effect.sync(() => touched())
            })
          )
          let touches = 0
          touched = () => {
            if (++touches !== run.endsAt) return
            if (number === plan.dies) {
              die()
              fiber.interruptUnsafe()
            } else if (run.end === "stop") Effect.runFork(agent.stop(sessionId))
            else fiber.interruptUnsafe()
          }
          const end = Effect.promise(() => hanging.promise).pipe(
            Effect.andThen(Effect.sleep(3)),
            Effect.andThen(run.end === "stop" ? agent.stop(sessionId) : Fiber.interrupt(fiber))
          )
          const ending = yield* Effect.forkChild(end)
          const exit = yield* Fiber.await(fiber)
          yield* Fiber.interrupt(ending)
          if (Exit.isFailure(exit) && Exit.hasDies(exit)) return yield* Effect.die(exit.cause)
          const children = new Set(
            heard.flatMap(({ event }) => (event._tag === "ChildStarted" ? [event.sessionId] : []))
          )
          if (run.title !== undefined && !(isDead && number === plan.dies)) {
            const messages = [Prompt.userMessage({ content: [Prompt.textPart({ text: run.title })] })]
            // As in the program: the session that goes on, and the turn that is over.
            const goesOn = yield* store.newest(sessionId)
            const turnId =
              heard.findLast(({ event, sessionId: of }) => event._tag === "RunEnded" && !children.has(of))?.turnId ??
              Ids.TurnId.make("t")
            begin({ ...run, moves: [{ kind: "say", turn: { text: `TITLE ${run.title}` } }] })
            yield* auxiliary.call(run.task, {
              messages,
              context: { sessionId: goesOn, turnId, taskId: Ids.TaskId.make(goesOn) }
            })
          }
        }
        // Children in the background end after the run that sent them; one that waits for ever ends with the runtime.
      }).pipe((runs) => Effect.suspend(() => Effect.provide(runs, runtime(), { local: true })))
    const secrets = Secrets.make()
    secrets.add(heldSecret)
    return yield* Effect.forEach(plan.restarts ? plan.runs.map((run) => [run]) : [plan.runs], inRuntime, {
      discard: true
    }).pipe(
      // The runtime is closed: what it had under way is over, and the record is read as another process would.
      Effect.andThen(
        Effect.provide(
          Effect.gen(function* () {
            const store = yield* SessionStore.SessionStore
            const record = yield* RunRecord.RunRecord
            const sessions = yield* store.list({ limit: 1_000 })
            const messages = new Map<string, ReadonlyArray<Prompt.Message>>()
            for (const { id } of sessions) messages.set(id, yield* store.messages(id))
            const stored = yield* Stream.runCollect(record.read())
            assert.deepStrictEqual(yield* record.unread(), { newer: 0, damaged: 0, partial: 0 })
            return {
              plan,
              path,
              files,
              sessionId,
              asked: isDead ? answerable(asked, stored, (id) => conversationOf(sessions, id), plan.dies) : asked,
              heard,
              stored,
              sessions,
              messages,
              isDead
            } satisfies Outcome
          }),
          Layer.unwrap(Effect.sync(() => SessionStore.layerSqlite({ path }))),
          { local: true }
        )
      ),
      Effect.provideService(Secrets.Secrets, secrets)
    )
  })
