/**
 * Live episodes. A rollout has only one call at a time. The request of a call continues the episode, and the answer is
 * stored before it is returned.
 *
 * **Details**
 *
 * If a call fails or its client disconnects, the failure is recorded and the episode remains open. If the history of a
 * request differs from the episode, the request is refused or begins a new node, depending on the options with which
 * the rollout was opened. A finished episode does not accept calls.
 *
 * **Gotchas**
 *
 * Only one process at a time may use a rollout; other processes may read its file. If a process ends during a call, the
 * call is marked as interrupted when the rollout is used again.
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Ids from "../../base/domain/Ids.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import { RolloutRefused, type RolloutScore, type RolloutWanted } from "../../base/domain/RolloutPort.ts"
import * as Episode from "./Episode.ts"
import { EpisodeStore, parseEntries } from "./EpisodeStore.ts"
import * as TokenCapture from "./TokenCapture.ts"
import * as ToolCallParser from "./ToolCallParser.ts"

/** One model request of a rollout. */
export interface Request {
  readonly messages: ReadonlyArray<Json.Fields>
  readonly tools: ReadonlyArray<unknown> | undefined
  readonly sampling: Json.Fields
}

/** Service for live episodes. */
export interface Service {
  /** Begins an episode. Missing ids are generated. */
  readonly open: (wanted: RolloutWanted, model: string) => Effect.Effect<Episode.Episode, RolloutRefused>
  readonly get: (id: string) => Effect.Effect<Episode.Episode, RolloutRefused>
  readonly ids: Effect.Effect<ReadonlyArray<string>, RolloutRefused>
  /**
   * Returns true if this process is currently answering a request in the rollout. A call that a dead process left open
   * does not count.
   */
  readonly isBusy: (id: string) => Effect.Effect<boolean>
  /**
   * Makes one call. `ask` receives the messages to send and returns the body of a chat completion. The result is this
   * body, with tool calls parsed from its text. Messages that the episode already contains are sent exactly as stored,
   * even if the client changed them, so that they are tokenized as before.
   */
  readonly call: <E, R>(
    id: string,
    request: Request,
    ask: (messages: ReadonlyArray<Json.Fields>) => Effect.Effect<unknown, E, R>
  ) => Effect.Effect<Json.Fields, RolloutRefused | E, R>
  readonly finish: (
    id: string,
    score: Partial<RolloutScore>,
    exit?: string
  ) => Effect.Effect<Episode.Episode, RolloutRefused>
  /** Stores an episode of another process, and returns it. An episode that is stored already is left as it is. */
  readonly adopt: (entries: ReadonlyArray<Json.Fields>) => Effect.Effect<Episode.Episode, RolloutRefused>
  /**
   * Records the advantage or the reference log probabilities of an episode, which are known only after its group is
   * complete.
   */
  readonly note: (
    id: string,
    known: { readonly advantage: number } | { readonly reference: ReadonlyArray<number> }
  ) => Effect.Effect<Episode.Episode, RolloutRefused>
}

/** Service for live episodes. */
export class Episodes extends Context.Service<Episodes, Service>()("hermes-effect/runner/Episodes") {}

/** Maximum number of episodes cached in memory between calls. Any other episode is read from the store again. */
const mostCached = 512

const now: Effect.Effect<string> = Effect.map(Clock.currentTimeMillis, (millis) => new Date(millis).toISOString())

const makeRefusal = (reason: RolloutRefused["reason"], message: string): RolloutRefused =>
  new RolloutRefused({ reason, message })

const checkParser = (name: string | undefined): Effect.Effect<void, RolloutRefused> =>
  name === undefined || ToolCallParser.find(name) !== undefined
    ? Effect.void
    : Effect.fail(
        makeRefusal(
          "invalid_request",
          `Unknown tool_call_parser ${JSON.stringify(name)}. There are ${ToolCallParser.names.join(", ")}.`
        )
      )

/** Moves calls from the text of an answer to `tool_calls`, and removes them from the text. */
const parseTextCalls = (
  body: Json.Fields,
  parser: string | undefined,
  tools: ReadonlyArray<unknown> | undefined
): Json.Fields => {
  const parse = parser === undefined ? undefined : ToolCallParser.find(parser)
  const [first, ...others] = Json.readItems(body["choices"])
  const choice = Json.readFields(first)
  const message = Json.readFields(choice["message"])
  const text = Json.readString(message["content"])
  if (parse === undefined || text === undefined || Json.readItems(message["tool_calls"]).length > 0) return body
  const { calls, content } = parse(text, tools ?? [])
  if (calls.length === 0) return body
  const id = Json.readWord(body["id"]) || "rollout"
  const toolCalls = calls.map(({ arguments: args, id: own, name }, index) => ({
    id: own ?? `call_${id}_${index}`,
    type: "function",
    function: { name, arguments: args }
  }))
  return {
    ...body,
    choices: [
      {
        ...choice,
        finish_reason: choice["finish_reason"] === "length" ? "length" : "tool_calls",
        message: { ...message, content: content === "" ? null : content, tool_calls: toolCalls }
      },
      ...others
    ]
  }
}

/** An answer of a model. */
interface ReceivedAnswer {
  /** Body of the response as the provider sent it. */
  readonly raw: Json.Fields
  /** Body with the calls that were parsed from its text. */
  readonly body: Json.Fields
}

/** Makes the entry for an answer to a call. */
const toAnswerEntry = (
  episode: Episode.Episode,
  { at, call }: { readonly at: string; readonly call: number },
  request: Request,
  { body, raw }: ReceivedAnswer
): Episode.AnswerEntry => {
  const choice = Json.readFields(Json.readItems(body["choices"])[0])
  const captured = TokenCapture.read(raw)
  const last = episode.nodes.at(-1)
  const place = Episode.locateMessages(episode, request.messages)
  const isBranch = "differsAt" in place
  const { node, prompt } = isBranch
    ? { node: "history_diverged" as const, prompt: captured.promptTokens }
    : Episode.splitPrompt(last, captured.promptTokens)
  const stopReason = choice["stop_reason"] ?? choice["matched_stop"]
  const usage = body["usage"]
  return {
    type: "answer",
    call,
    at,
    ...(node === undefined ? {} : { node }),
    messages: node === undefined && !isBranch ? place.fresh : request.messages,
    ...(request.tools === undefined ? {} : { tools: request.tools }),
    answer: Json.readFields(choice["message"]),
    finish_reason: Json.readString(choice["finish_reason"]),
    ...(stopReason === undefined || stopReason === null ? {} : { stop_reason: stopReason }),
    model: Json.readString(body["model"]),
    sampling: request.sampling,
    ...(Json.isFields(usage) ? { usage } : {}),
    prompt,
    tokens: captured.tokens,
    logprobs: captured.logprobs,
    problems: captured.problems
  }
}

/** The episodes that are cached in memory, and the store that contains all episodes. */
interface LiveEpisodes {
  readonly store: EpisodeStore["Service"]
  readonly cached: Map<string, Episode.Episode>
  /** Rollouts that are answering a call or being finished. */
  readonly busy: Set<string>
}

const cacheEpisode = ({ busy, cached }: LiveEpisodes, id: string, episode: Episode.Episode): Episode.Episode => {
  cached.delete(id)
  cached.set(id, episode)
  if (cached.size > mostCached) {
    const idle = Array.from(cached.keys()).find((one) => !busy.has(one) && one !== id)
    if (idle !== undefined) cached.delete(idle)
  }
  return episode
}

const appendEntry = (
  live: LiveEpisodes,
  id: string,
  episode: Episode.Episode,
  entry: Episode.Entry
): Effect.Effect<Episode.Episode, RolloutRefused> =>
  Effect.map(live.store.append(id, entry), () => cacheEpisode(live, id, Episode.apply(episode, entry) ?? episode))

const getEpisode = ({ cached, store }: LiveEpisodes, id: string) =>
  Effect.suspend(() => {
    const known = cached.get(id)
    return known === undefined ? store.read(id) : Effect.succeed(known)
  })

/** Runs work on a rollout exclusively: other work on the same rollout does not run at the same time. */
const runExclusively = <A, E, R>(
  live: LiveEpisodes,
  id: string,
  work: (episode: Episode.Episode) => Effect.Effect<A, E, R>
): Effect.Effect<A, E | RolloutRefused, R> =>
  Effect.suspend(() => {
    const { busy } = live
    if (busy.has(id)) {
      return Effect.fail(
        makeRefusal(
          "rollout_busy",
          `The rollout ${id} is answering another request. Send one request at a time, or open a rollout for each.`
        )
      )
    }
    busy.add(id)
    return Effect.ensuring(
      Effect.flatMap(getEpisode(live, id), (episode): Effect.Effect<A, E | RolloutRefused, R> =>
        episode.finished === undefined
          ? work(episode)
          : Effect.fail(
              makeRefusal(
                "rollout_finished",
                `The rollout ${id} is finished and takes no more requests. Open another one.`
              )
            )
      ),
      Effect.sync(() => busy.delete(id))
    )
  })

/** Marks calls that were interrupted by the end of a process. */
const markInterrupted = (
  live: LiveEpisodes,
  episode: Episode.Episode
): Effect.Effect<Episode.Episode, RolloutRefused> =>
  Effect.reduce(
    Array.from(episode.open),
    () => episode,
    (before, call) =>
      Effect.flatMap(now, (at) =>
        appendEntry(live, episode.rollout_id, before, {
          type: "interrupted",
          call,
          at,
          message: "the process ended during the call"
        })
      )
  )

/** Stores the failure of a call. A store error is only logged, so that the caller receives the original failure. */
const recordFailure = Effect.fnUntraced(function* (
  live: LiveEpisodes,
  id: string,
  episode: Episode.Episode,
  call: number,
  cause: Cause.Cause<unknown>
) {
  const at = yield* now
  const isCut = Cause.hasInterruptsOnly(cause)
  const message = isCut
    ? "the client went away before the answer"
    : Redaction.redactText(Cause.pretty(cause).split("\n")[0] ?? "unknown failure")
  const entry: Episode.Entry = { type: isCut ? "interrupted" : "failed", call, at, message }
  yield* Effect.catch(appendEntry(live, id, episode, entry), (error) => Effect.logWarning(error.message))
})

const makeCall =
  (live: LiveEpisodes): Service["call"] =>
  (id, request, ask) =>
    runExclusively(live, id, (found) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function* () {
          const place = Episode.locateMessages(found, request.messages)
          if ("differsAt" in place && found.on_divergence === "refuse") {
            return yield* makeRefusal(
              "history_diverged",
              `Message ${place.differsAt + 1} is another one than the rollout ${id} has. A rollout only grows: ` +
                'send its messages unchanged, or open it with on_divergence "branch".'
            )
          }
          const before = yield* markInterrupted(live, found)
          const call = before.calls
          const begun = yield* appendEntry(live, id, before, { type: "call", call, at: yield* now })
          const exit = yield* Effect.exit(restore(ask("differsAt" in place ? request.messages : place.whole)))
          if (Exit.isFailure(exit)) {
            yield* recordFailure(live, id, begun, call, exit.cause)
            return yield* Effect.failCause(exit.cause)
          }
          const raw = Json.readFields(exit.value)
          const body = parseTextCalls(raw, begun.tool_call_parser, request.tools)
          const entry = toAnswerEntry(begun, { at: yield* now, call }, request, { raw, body })
          yield* appendEntry(live, id, begun, entry)
          return body
        })
      )
    )

/** Stores the entries of an episode of another process. */
const adoptEpisode = Effect.fnUntraced(function* (live: LiveEpisodes, entries: ReadonlyArray<Json.Fields>) {
  const [first, ...others] = parseEntries(entries)
  if (first?.type !== "rollout")
    return yield* makeRefusal("invalid_request", "An episode of another process has no beginning.")
  const id = first.rollout_id
  const known = yield* Effect.option(live.store.read(id))
  if (Option.isSome(known)) return known.value
  yield* live.store.create(first)
  for (const entry of others) yield* live.store.append(id, entry)
  return yield* live.store.read(id)
})

const make = Effect.gen(function* () {
  const store = yield* EpisodeStore
  const live: LiveEpisodes = { store, cached: new Map(), busy: new Set() }
  return {
    open: Effect.fnUntraced(function* (wanted, model) {
      yield* checkParser(wanted.tool_call_parser)
      const id = wanted.rollout_id ?? `rollout_${yield* Ids.makeSessionId}`
      const entry: Episode.BeginEntry = {
        type: "rollout",
        v: Episode.version,
        at: yield* now,
        rollout_id: id,
        group_id: wanted.group_id ?? id,
        model,
        weights_version: wanted.weights_version,
        sampling: wanted.sampling ?? {},
        on_divergence: wanted.on_divergence ?? "refuse",
        tool_call_parser: wanted.tool_call_parser,
        metadata: wanted.metadata ?? {}
      }
      yield* store.create(entry)
      return cacheEpisode(
        live,
        id,
        Episode.apply(undefined, entry) ?? (yield* Effect.die("a rollout that does not begin"))
      )
    }),
    get: (id) => getEpisode(live, id),
    ids: store.ids,
    isBusy: (id) => Effect.sync(() => live.busy.has(id)),
    call: makeCall(live),
    finish: (id, { cause, components, reward }, exit) =>
      runExclusively(live, id, (episode) =>
        Effect.flatMap(now, (at) =>
          appendEntry(live, id, episode, { type: "finished", at, reward, components, cause, exit })
        )
      ),
    adopt: (entries) => adoptEpisode(live, entries),
    note: (id, known) =>
      Effect.flatMap(Effect.all([getEpisode(live, id), now]), ([episode, at]) =>
        appendEntry(
          live,
          id,
          episode,
          "advantage" in known
            ? { type: "advantage", at, advantage: known.advantage }
            : { type: "reference", at, logprobs: known.reference }
        )
      )
  } satisfies Service
})

/** Provides live episodes over the store in the context. */
export const layer: Layer.Layer<Episodes, never, EpisodeStore> = Layer.effect(Episodes, make)
