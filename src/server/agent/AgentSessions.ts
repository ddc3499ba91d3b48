/**
 * Live sessions behind the server: one for each conversation that a client has, opened when it is asked for, closed when nobody used it for a
 * while; and exchanges with the agent in them.
 *
 * **Details**
 *
 * A conversation is named by its session, or recognised: a client that keeps the messages itself and sends them all goes on in the session
 * whose messages they are, as long as that ends with them. Other messages (nobody knows them, several sessions have the same, the session
 * went on since) begin a new session with them.
 *
 * An exchange ends with its turn, or with calls of the client's own tools, which the turn then waits for; the next exchange brings their
 * results. A client that goes away in the middle stops its turn, or takes its message back where another turn is before it.
 *
 * Questions are for readers of the session's events. Where there are none, they are denied.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as Prompt from "effect/ai/Prompt"
import { Agent } from "../../agent/Agent.ts"
import type { BackgroundWork } from "../../agent/BackgroundWork.ts"
import type { RunInput } from "../../agent/RunInput.ts"
import type { PermissionMode } from "../../config/PermissionMode.ts"
import type { AgentError } from "../../domain/AgentError.ts"
import * as Conversation from "../../domain/Conversation.ts"
import * as Ids from "../../domain/Ids.ts"
import type { Route } from "../../domain/Route.ts"
import type { RunResult } from "../../domain/RunEvent.ts"
import * as Usage from "../../domain/Usage.ts"
import type { Hooks } from "../../hooks/Hooks.ts"
import type { Answer, HostEvent } from "../../host/HostEvent.ts"
import * as LiveSession from "../../host/LiveSession.ts"
import { streamedText } from "../../host/StreamedText.ts"
import * as Digest from "../../platform/Digest.ts"
import * as SystemPrompt from "../../prompt/SystemPrompt.ts"
import { ModelRouter } from "../../routing/ModelRouter.ts"
import type { RunRecord } from "../../session/RunRecord.ts"
import * as SessionFork from "../../session/SessionFork.ts"
import { type Session, SessionStore } from "../../session/SessionStore.ts"
import { type Selection, ToolRegistry } from "../../tool/ToolRegistry.ts"
import * as ApiError from "../ApiError.ts"
import * as ClientTools from "./ClientTools.ts"
import * as EventFeed from "./EventFeed.ts"

/** A model that requests may name. */
export interface ServedModel {
  readonly id: string
  /** The router's own choice when absent. */
  readonly route: Route | undefined
}

/** Values that all sessions share. */
export interface Options {
  /** Tools of the agent. */
  readonly tools: Selection
  readonly mode: PermissionMode
  /** Directory of the tools. */
  readonly cwd: string
  readonly models: Effect.Effect<ReadonlyArray<ServedModel>>
  readonly maxIterations?: number | undefined
  /** Sessions that are open at once; 512 when absent. */
  readonly maxSessions?: number | undefined
  /** Time after which a session that nobody uses is closed; 10 minutes when absent. It stays stored. */
  readonly idle?: Duration.Duration | undefined
}

/** A request to the agent. */
export interface Request {
  /** Session to go on with, by its id; absent, it is found by `history`, or a new one. */
  readonly session: string | undefined
  /** Position of a turn of the session behind which it goes on, where that is not its end. */
  readonly position?: number | undefined
  /** Instructions of the caller, behind those of the agent; for this turn alone. */
  readonly system: string | undefined
  /** Conversation before the prompt, for clients that keep it themselves. */
  readonly history: ReadonlyArray<Prompt.Message>
  readonly prompt: RunInput["prompt"] | undefined
  /** Results of the caller's tools by the ids of their calls; a request has these or a prompt. */
  readonly results: ReadonlyMap<string, string>
  readonly tools: ReadonlyArray<ClientTools.ClientTool>
  readonly model: string | undefined
}

/** A part of an answer; `Ended` is the last. */
export type Piece =
  | { readonly _tag: "Text"; readonly text: string }
  | { readonly _tag: "Reasoning"; readonly text: string }
  | { readonly _tag: "Ended"; readonly ending: Ending }

/** End of an exchange. */
export interface Ending {
  readonly finish: "stop" | "length" | "tool_calls" | "content_filter"
  /** Calls of the caller's tools. */
  readonly calls: ReadonlyArray<ClientTools.ClientCall>
  readonly usage: Usage.Usage
  readonly model: string
}

/** An answer under way. */
export interface Exchange {
  readonly sessionId: string
  /** Number of messages that stand before its turn. */
  readonly position: number
  readonly pieces: Stream.Stream<Piece, ApiError.ApiError>
}

/** Answers to the questions of a session whose events nobody reads. */
const unread: { readonly [Kind in Answer["_tag"]]: Extract<Answer, { readonly _tag: Kind }> } = {
  Approval: { _tag: "Approval", reply: { choice: "deny", reason: "Approvals are not available over this connection." } },
  Clarification: { _tag: "Clarification", answers: [] },
  Plan: { _tag: "Plan", mode: "plan" }
}

/** A session that is open. */
export interface ServedSession {
  readonly id: string
  readonly live: LiveSession.LiveSession
  readonly feed: EventFeed.EventFeed
  readonly calls: ClientTools.ClientCalls
}

/** Sessions of a server. */
export interface Service {
  readonly exchange: (request: Request) => Effect.Effect<Exchange, ApiError.ApiError, Scope.Scope>
  /** Opens a session, or finds it open; a new one without an id. */
  readonly open: (id?: string) => Effect.Effect<ServedSession, ApiError.ApiError>
  readonly close: (id: string) => Effect.Effect<boolean>
  readonly models: Options["models"]
  /** Numbers for `/metrics`. */
  readonly counts: () => { readonly open: number; readonly turns: number; readonly readers: number; readonly usage: Usage.Usage }
}

/** Sessions of a server. */
export class AgentSessions extends Context.Service<AgentSessions, Service>()("hermes-effect/server/AgentSessions") {}

interface Kept extends ServedSession {
  readonly scope: Scope.Closeable
  readonly input: { tools: Selection; system: string | undefined; toolScope: Scope.Closeable | undefined; offered: string }
  /** Exchanges under way: one at most. */
  isBusy: boolean
  /** Number of messages before the last turn that an exchange began. */
  turnAt: number
  usedAt: number
}

type Needs = Agent | BackgroundWork | Hooks | ModelRouter | RunRecord | SessionStore | ToolRegistry

const finishes: Partial<Record<RunResult["exit"], Ending["finish"]>> = {
  output_truncated: "length",
  max_iterations_reached: "length",
  budget_exhausted: "length",
  content_filtered: "content_filter"
}

/** Time in which another call of the same answer may follow. */
const settling = "30 millis"

/** Conversations that are recognised by their messages. */
const mostKnown = 4_096

/** A stored session as a conversation left it. */
interface Left {
  readonly id: string
  readonly messages: number
}

/** Returns what is said in a conversation, as its client keeps it; calls and results are the agent's own. */
const fingerprint = (messages: ReadonlyArray<Prompt.Message>): string =>
  Digest.hex(JSON.stringify(messages.flatMap((message) => {
    const text = message.role === "user" || message.role === "assistant" ? Conversation.text(message).trim() : ""
    return text === "" ? [] : [[message.role, text]]
  })), 64)

/** Opens no session yet; all of them are closed with the scope. */
export const make = Effect.fnUntraced(function*(options: Options): Effect.fn.Return<Service, never, Needs | Scope.Scope> {
  const { cwd, idle = Duration.minutes(10), maxIterations, maxSessions = 512, mode, models } = options
  const context = yield* Effect.context<Needs>()
  const agent = yield* Agent
  const router = yield* ModelRouter
  const store = yield* SessionStore
  const registry = yield* ToolRegistry
  const whole = yield* Effect.scope
  const sessions = new Map<string, Kept>()
  /** Sessions by the fingerprint of what was said in them; undefined where several have the same. */
  const known = new Map<string, Left | undefined>()
  /** One session is opened at a time: its bound holds, and nobody opens the same one twice. */
  const opening = yield* Semaphore.make(1)
  const chosen = ClientTools.withoutClients(options.tools)
  let turns = 0
  let spent = Usage.zero

  const storeFailed = (error: { readonly message: string }): ApiError.ApiError => ApiError.make(500, "store_failed", error.message)

  const remember = (key: string, left: Left): void => {
    const isOther = known.has(key) && known.get(key)?.id !== left.id
    known.delete(key)
    known.set(key, isOther ? undefined : left)
    const oldest = known.keys().next()
    if (known.size > mostKnown && oldest.done !== true) known.delete(oldest.value)
  }

  const close = Effect.fnUntraced(function*(id: string) {
    const found = sessions.get(id)
    if (found === undefined) return false
    sessions.delete(id)
    yield* Scope.close(found.scope, Exit.void)
    return true
  })

  /** Closes what nobody used for a while, and where there are too many the one that was used longest ago. */
  const makeRoom = Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    const free = Array.from(sessions.values()).filter(({ feed, isBusy }) => !isBusy && feed.readers() === 0).sort((one, other) => one.usedAt - other.usedAt)
    const working = yield* Effect.filter(free, ({ live }) => Effect.map(live.state, ({ turn }) => turn === undefined))
    for (const [index, one] of working.entries()) {
      const isDue = now - one.usedAt >= Duration.toMillis(idle) || sessions.size >= maxSessions && index === 0
      if (isDue && !one.isBusy) yield* close(one.id)
    }
    if (sessions.size >= maxSessions) {
      return yield* ApiError.make(503, "too_many_sessions", `${maxSessions} sessions are open and in use. Try again in a moment, or close one.`)
    }
  })
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(Duration.seconds(30)), Effect.ignore(makeRoom))))

  const begin = Effect.fnUntraced(function*(id: Ids.SessionId): Effect.fn.Return<Kept, ApiError.ApiError> {
    yield* makeRoom
    const scope = yield* Scope.fork(whole)
    const input: Kept["input"] = { tools: chosen, system: undefined, toolScope: undefined, offered: "[]" }
    const live = yield* LiveSession.make({
      session: { id, cwd },
      cwd,
      input: {
        source: "api-server",
        maxIterations,
        // Read for each turn: a request brings its own.
        get tools() {
          return input.tools
        },
        get ephemeralSystemPrompt() {
          return input.system
        }
      },
      mode,
      platform: "api-server"
    }).pipe(Scope.provide(scope), Effect.provideContext(context))
    // Behind all numbers of an earlier opening, so that a reader of that one learns what it missed.
    const feed = EventFeed.make(yield* Clock.currentTimeMillis)
    const kept: Kept = { id, live, feed, calls: ClientTools.make(id), scope, input, isBusy: false, turnAt: 0, usedAt: yield* Clock.currentTimeMillis }
    sessions.set(id, kept)
    const reader = yield* Scope.provide(live.subscribe({ whenBehind: "wait" }), scope)
    const take = Effect.fnUntraced(function*(event: HostEvent) {
      feed.publish(event)
      if (event._tag === "RunEvents") for (const one of event.events) if (one._tag === "UsageReported") spent = Usage.add(spent, one.usage)
      if (event._tag === "TurnStarted") turns++
      if (event._tag !== "QuestionAsked" || feed.readers() > 0) return
      // It was answered, or taken back, just now.
      yield* Effect.ignore(live.answer(event.question.id, unread[event.question._tag]))
    })
    yield* Effect.forkIn(Effect.ensuring(Effect.ignore(Effect.forever(Effect.flatMap(reader.take, take))), feed.end), scope)
    yield* Scope.addFinalizer(scope, kept.calls.abandon)
    return kept
  }, Effect.uninterruptible)

  const stored = (id: string): Effect.Effect<Session, ApiError.ApiError> =>
    Effect.mapError(Effect.flatMap(store.newest(Ids.SessionId.make(id)), store.get), storeFailed).pipe(
      Effect.flatMap(Option.match({
        onNone: () => Effect.fail(ApiError.make(404, "session_not_found", `There is no session "${id}".`)),
        onSome: Effect.succeed
      }))
    )

  const find = Effect.fnUntraced(function*(id: string): Effect.fn.Return<Kept, ApiError.ApiError> {
    const open = sessions.get(id)
    const found = open ?? (yield* opening.withPermits(1)(Effect.flatMap(stored(id), ({ id: newest }) => {
      const other = sessions.get(newest)
      return other === undefined ? begin(newest) : Effect.succeed(other)
    })))
    found.usedAt = yield* Clock.currentTimeMillis
    return found
  })

  /** Begins a session with messages that somebody else kept. */
  const beginWith = Effect.fnUntraced(function*(history: ReadonlyArray<Prompt.Message>) {
    const id = yield* Ids.makeSessionId
    if (history.length > 0) {
      const { model, provider } = yield* router.primary
      const layers = yield* agent.promptLayers({ cwd, tools: chosen })
      yield* store.create({ id, source: "api-server", provider, model, systemPrompt: SystemPrompt.render(layers), cwd })
      yield* store.append(id, history)
    }
    return id
  }, Effect.mapError(storeFailed))

  const forkAt = (id: string, position: number): Effect.Effect<string, ApiError.ApiError> =>
    Effect.gen(function*() {
      const session = yield* stored(id)
      // It was compacted since, and goes on from its summary.
      if (session.id !== id) return session.id
      const history = yield* store.messages(session.id)
      const turn = history.findIndex(({ role }, index) => index >= position && role === "user")
      const end = turn === -1 ? -1 : history.findIndex(({ role }, index) => index > turn && role === "user")
      if (end === -1) return session.id
      const made = yield* SessionFork.fork(session, { history: history.slice(0, end), position: end, changed: ["prompt"], source: "api-server" })
      return made.id
    }).pipe(Effect.mapError((error) => error instanceof ApiError.ApiError ? error : storeFailed(error)), Effect.provideContext(context))

  /** Finds the session that ends with these messages. It is given away once: whoever sends the same again gets another. */
  const recognise = Effect.fnUntraced(function*(history: ReadonlyArray<Prompt.Message>) {
    const key = fingerprint(history)
    const left = known.get(key)
    if (left === undefined) return undefined
    known.delete(key)
    const session = yield* Effect.option(stored(left.id))
    const isSame = Option.isSome(session) && session.value.id === left.id && session.value.messageCount === left.messages
    return isSame ? Option.getOrUndefined(yield* Effect.option(find(left.id))) : undefined
  })

  const sessionOf = Effect.fnUntraced(function*({ history, position, results, session }: Request): Effect.fn.Return<Kept, ApiError.ApiError> {
    const [waitsFor] = results.keys()
    if (waitsFor !== undefined) {
      const found = Array.from(sessions.values()).find(({ calls }) => calls.waiting().some(({ id }) => results.has(id)))
      return found ?? (yield* ApiError.make(400, "unknown_tool_call", `No call "${waitsFor}" waits for a result. It was answered, took too long, or its conversation was closed.`))
    }
    if (session !== undefined) return yield* find(position === undefined ? session : yield* forkAt(session, position))
    const again = history.length === 0 ? undefined : yield* recognise(history)
    return again !== undefined && !again.isBusy ? again : yield* opening.withPermits(1)(Effect.andThen(makeRoom, Effect.flatMap(beginWith(history), begin)))
  })

  const routeOf = Effect.fnUntraced(function*(model: string | undefined): Effect.fn.Return<Route | undefined, ApiError.ApiError> {
    if (model === undefined || model === "hermes") return undefined
    const all = yield* models
    const found = all.find(({ id }) => id === model) ?? all.find(({ id }) => id.endsWith(`/${model}`))
    if (found !== undefined) return found.route
    return yield* ApiError.make(404, "model_not_found", `There is no model "${model}". GET /v1/models lists them; "hermes" is the one of the settings.`)
  })

  /** Offers the tools of a request to the next turn. */
  const prepare = Effect.fnUntraced(function*({ calls, id, input, scope }: Kept, { system, tools }: Request) {
    input.system = system
    const offered = JSON.stringify(tools)
    if (offered === input.offered) return
    if (input.toolScope !== undefined) yield* Scope.close(input.toolScope, Exit.void)
    input.toolScope = undefined
    input.offered = offered
    input.tools = tools.length === 0 ? chosen : ClientTools.selectionOf(id, options.tools)
    if (tools.length === 0) return
    input.toolScope = yield* Scope.fork(scope)
    yield* Scope.provide(registry.override(calls.toolset(tools)), input.toolScope)
  })

  const endOf = (exit: Exit.Exit<RunResult, AgentError>): Effect.Effect<Ending["finish"], ApiError.ApiError> => {
    if (Exit.isSuccess(exit)) return Effect.succeed(finishes[exit.value.exit] ?? "stop")
    if (Exit.hasInterrupts(exit)) return Effect.fail(ApiError.make(503, "interrupted", "The turn was stopped, or the server ends."))
    return Effect.fail(ApiError.ofTurn(exit.cause))
  }

  const exchange: Service["exchange"] = Effect.fnUntraced(function*(request) {
    const route = yield* routeOf(request.model)
    const kept = yield* sessionOf(request)
    const { calls, id, live } = kept
    if (kept.isBusy) return yield* ApiError.make(409, "session_busy", `Session "${id}" answers another request. Wait for its end, or begin another session.`)
    kept.isBusy = true
    let isEnded = false
    // The next request may come before the connection of this one is done with.
    const release = Effect.map(Clock.currentTimeMillis, (now) => {
      isEnded = true
      kept.isBusy = false
      kept.usedAt = now
    })
    let message: string | undefined
    /** Stops what nobody reads any more: the client went away in the middle. A session that was closed has nothing to stop. */
    const leave = Effect.suspend(() => {
      if (isEnded) return Effect.void
      const stopped = Effect.gen(function*() {
        const isQueued = message !== undefined && (yield* live.unqueue(message)) !== undefined
        const { turn } = yield* live.state
        if (!isQueued && (message === undefined || turn?.message.id === message)) yield* live.stop
      })
      return Effect.andThen(Effect.exit(stopped), release)
    })
    yield* Effect.addFinalizer(() => leave)
    const reader = yield* live.subscribe()
    if (request.results.size > 0) {
      for (const [call, output] of request.results) yield* calls.answer(call, output)
    } else {
      yield* calls.abandon
      yield* prepare(kept, request)
      yield* live.setRoute(route)
      kept.turnAt = (yield* Effect.mapError(live.known, storeFailed))?.messageCount ?? 0
      message = yield* Effect.uninterruptible(Effect.map(live.send({ prompt: request.prompt ?? "" }), (sent) => (message = sent.message.id)))
    }
    const { turn } = yield* live.state
    /** True in the turn of this exchange; another client's may stand before it. */
    let isOwn = message === undefined || turn?.message.id === message
    let said = ""
    let shown = streamedText(turn?.isRewritten !== true)
    let usage = Usage.zero
    let model = (yield* router.primary).model
    const running = new Set<string>()
    const asked = request.prompt === undefined ? [] : [Prompt.userMessage({ content: typeof request.prompt === "string" ? [Prompt.textPart({ text: request.prompt })] : request.prompt })]

    const end = Effect.fnUntraced(function*(finish: Ending["finish"]) {
      const waiting = finish === "tool_calls" ? calls.waiting() : []
      // A client that names its session does not send all of the conversation.
      if (waiting.length === 0 && request.session === undefined) {
        const left = yield* Effect.mapError(live.known, storeFailed)
        const answer = Prompt.assistantMessage({ content: [Prompt.textPart({ text: said })] })
        if (left !== undefined) remember(fingerprint([...request.history, ...asked, answer]), { id: left.id, messages: left.messageCount })
      }
      yield* release
      return [{ _tag: "Ended", ending: { finish, calls: waiting, usage, model } }] satisfies ReadonlyArray<Piece>
    })

    const take = Effect.fnUntraced(function*(event: HostEvent): Effect.fn.Return<ReadonlyArray<Piece>, ApiError.ApiError> {
      switch (event._tag) {
        case "TurnStarted":
          shown = streamedText(!event.turn.isRewritten)
          isOwn = message === undefined || event.turn.message.id === message
          return []
        case "TurnEnded":
          return message !== undefined && event.turn.message.id !== message ? [] : yield* Effect.flatMap(Effect.onError(endOf(event.exit), () => release), end)
        case "RunEvents":
          return !isOwn ? [] : event.events.flatMap((one): ReadonlyArray<Piece> => {
            const texts = (text: string): ReadonlyArray<Piece> => {
              said += text
              return text === "" ? [] : [{ _tag: "Text", text }]
            }
            switch (one._tag) {
              case "StepStarted":
                shown.step(one.step)
                return []
              case "TextDelta":
                return texts(shown.delta(one.text))
              case "TextReplaced":
                return shown.replace(one.stepId, one.text) === undefined || one.text === "" ? [] : texts(`\n\n${one.text}`)
              case "ReasoningDelta":
                return [{ _tag: "Reasoning", text: one.text }]
              case "ToolStarted":
                running.add(one.callId)
                return []
              case "ToolFinished":
                running.delete(one.callId)
                return []
              case "UsageReported":
                usage = Usage.add(usage, one.usage)
                if (one.origin === undefined) model = one.model
                return []
              case "RunFinished":
                return texts(shown.rest(one.text))
              default:
                return []
            }
          })
        default:
          return []
      }
    })

    /** True when nothing but the caller is waited for. */
    const isParked = (): boolean => {
      const waiting = calls.waiting()
      return waiting.length > 0 && Array.from(running).every((id) => waiting.some(({ callId }) => callId === id))
    }

    const closed = (): Effect.Effect<never, ApiError.ApiError> => Effect.fail(ApiError.make(503, "session_closed", "The session was closed. Ask again."))

    const next: Effect.Effect<ReadonlyArray<Piece>, ApiError.ApiError> = Effect.suspend(() => {
      const event = reader.poll()
      if (event !== undefined) return take(event)
      const more = Effect.raceFirst(Effect.as(reader.arrived, "event" as const), Effect.as(calls.arrived, "call" as const))
      const first = isParked() ? Effect.raceFirst(more, Effect.as(Effect.sleep(settling), "settled" as const)) : more
      return Effect.flatMap(first, (what): Effect.Effect<ReadonlyArray<Piece>, ApiError.ApiError> => {
        if (what === "settled") return end("tool_calls")
        return what === "call" ? Effect.succeed([]) : Effect.flatMap(Effect.catch(reader.take, closed), take)
      })
    })

    const pieces = Stream.unfold(undefined, (): Effect.Effect<readonly [ReadonlyArray<Piece>, undefined] | undefined, ApiError.ApiError> =>
      isEnded ? Effect.undefined : Effect.map(next, (found) => [found, undefined] as const)).pipe(Stream.flattenIterable, Stream.ensuring(leave))
    return { sessionId: id, position: kept.turnAt, pieces }
  })

  return {
    exchange,
    open: (id) => id === undefined ? opening.withPermits(1)(Effect.flatMap(Ids.makeSessionId, begin)) : find(id),
    close,
    models,
    counts: () => ({ open: sessions.size, turns, usage: spent, readers: Array.from(sessions.values()).reduce((sum, { feed }) => sum + feed.readers(), 0) })
  }
})
