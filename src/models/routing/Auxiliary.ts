/**
 * Runs side tasks that need a model: summarizing, finding titles, describing images, condensing web pages, judging
 * commands. The route is chosen for each task (`TaskRoutes`).
 *
 * **Details**
 *
 * A side task passes the same middleware as the model calls of a run, `wrap_model_call` included, and the API hooks
 * observe it, in the session to which it belongs. Its context has the name of the task, and the run's `turn_id` with
 * the suffix `:<task>:<number>`, so that its request ids are unique. A side task that a run requests passes the
 * middleware of that run. It does not pass middleware whose own code requests it (`middleware/Requesters`).
 *
 * If the provider is chosen automatically, the next one is used if an account has no credit or a provider cannot be
 * reached; an explicitly configured provider is never replaced. Each call has the deadline of its task. Usage is
 * counted for each task, and charged to the run and session that requested the task (`agent/Budget`).
 *
 * **Gotchas**
 *
 * If an answer contains only reasoning, the reasoning is used as its text. Failures are returned unchanged; the caller
 * decides whether a task may be skipped.
 *
 * **Example** (A title for a conversation)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Prompt from "effect/ai/Prompt"
 * import type { Auxiliary } from "hermes-effect/routing"
 *
 * export const titleOf = (auxiliary: Auxiliary.Service, text: string, context: Auxiliary.TaskRequest["context"]) =>
 *   auxiliary.call("title", {
 *     messages: [Prompt.userMessage({ content: [Prompt.textPart({ text: `Give this a title of five words: ${text}` })] })],
 *     maxOutputTokens: 30,
 *     context
 *   }).pipe(Effect.map((answer) => answer.text.trim()))
 * ```
 *
 * Source: `hermes-llm.md` §5, `ARCHITECTURE.md` §4.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import * as DerivedSettings from "../../base/config/DerivedSettings.ts"
import type { Values } from "../../base/config/Settings.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Cost from "../../base/domain/Cost.ts"
import { type SessionId, TurnId } from "../../base/domain/Ids.ts"
import type { ModelCall, ModelResponse } from "../../base/domain/ModelCall.ts"
import { type RouteInfo, toInfo } from "../../base/domain/Route.ts"
import * as OperationSpans from "../../base/domain/OperationSpans.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as CallTokens from "./CallTokens.ts"
import type { Interceptors } from "./Interceptors.ts"
import type { CallContext, ModelAnswer } from "../../middleware/Middleware.ts"
import { CurrentSpending } from "./SpendingPort.ts"
import * as TaskRoutes from "./TaskRoutes.ts"
import * as WarmPrefix from "./WarmPrefix.ts"
import { CallingRun, callModel, type Question, type Service as ModelRouter } from "./ModelRouter.ts"
import type { Lookup } from "./RouteKeys.ts"
import { isFailoverable, chooseRoutes } from "./TaskRouteChoice.ts"

/** Names of the runtime's side tasks; an application may define others. */
export type Task =
  | "compression"
  | "summary"
  | "vision"
  | "web_extract"
  | "session_search"
  | "skills_hub"
  | "mcp"
  | "flush_memories"
  | "title"
  | "approval"
  | (string & {})

/** Usage and cost of a side task. */
export interface Entry {
  readonly task: string
  readonly route: RouteInfo
  readonly usage: Usage.Usage
  readonly cost: Cost.Cost
}

/** Request of a side task, and the run that needs it. */
export interface TaskRequest extends TaskRoutes.Overrides {
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly tools?: ModelCall["tools"] | undefined
  readonly toolChoice?: ModelCall["toolChoice"] | undefined
  readonly responseFormat?: ModelCall["responseFormat"] | undefined
  readonly maxOutputTokens?: number | undefined
  readonly temperature?: number | undefined
  readonly reasoningEffort?: ModelCall["reasoningEffort"]
  readonly compact?: ModelCall["compact"]
  /** Conversation whose prompt cache is shared, if the request has the same prefix as the conversation's requests. */
  readonly conversationId?: ModelCall["conversationId"]
  /** Id that is used as the key of the prompt cache in place of `conversationId`. */
  readonly sharedCacheId?: ModelCall["sharedCacheId"]
  /** Prompt cache of the request, if it has the same prefix as the conversation's requests. */
  readonly cache?: ModelCall["cache"]
  /** Context management of the request, if it has the same prefix as the conversation's requests. */
  readonly contextEdits?: ModelCall["contextEdits"]
  /**
   * The task as one more message of a conversation. It is sent instead of `messages`, on the route of the conversation,
   * if that costs less and the settings name no other route for the task. No tool of the conversation is run: if the
   * answer calls tools twice, has no text or is cut by the output limit, or if the call fails, `messages` are sent.
   */
  readonly continuation?: WarmPrefix.Continuation | undefined
  /** True if the model must accept images; by default only for the task `vision`. */
  readonly images?: boolean | undefined
  /** The run that needs the task's result. */
  readonly context: Pick<CallContext, "sessionId" | "taskId" | "turnId">
  readonly record?: ((entry: Pick<Answer, "route" | "usage" | "cost">) => Effect.Effect<void>) | undefined
}

/** Answer to a side task. */
export interface Answer {
  readonly text: string
  readonly response: ModelResponse
  readonly route: RouteInfo
  readonly usage: Usage.Usage
  readonly cost: Cost.Cost
}

/** Runs side tasks that need a model. */
export interface Service<out E = never> {
  readonly call: (task: Task, ask: TaskRequest) => Effect.Effect<Answer, AiError.AiError | ConfigError | E>
  /** Returns the route that would be tried first, or `undefined` if no route is available. */
  readonly resolve: (task: Task, overrides?: TaskRoutes.Overrides) => Effect.Effect<RouteInfo | undefined, ConfigError>
  /** Total usage of each task so far, for all sessions. */
  readonly used: Effect.Effect<ReadonlyMap<string, TaskUsage>>
}

/** Usage and cost of a task. */
export interface TaskUsage {
  readonly usage: Usage.Usage
  readonly cost: Cost.Total
}

/**
 * Service that runs a runtime's side tasks.
 *
 * @see {@link Service} for its members.
 */
export class Auxiliary extends Context.Service<Auxiliary, Service>()("hermes-effect/routing/Auxiliary") {}

/** Dependencies of the service. */
export interface Options {
  readonly settings: Pick<Values, "model" | "auxiliary" | "customProviders" | "credentials" | "sources">
  readonly router: ModelRouter
  readonly interceptors: Interceptors
  /** Looks up keys in the environment. Without this option no such keys are used. */
  readonly lookup?: Lookup | undefined
  /**
   * Returns a provider's key from pools and logins. This key takes precedence over keys in the environment. Defaults to
   * the configured keys.
   */
  readonly pool?: ((provider: string) => Effect.Effect<TaskRoutes.PoolKey | undefined>) | undefined
  /** Charges the usage of a task to the session that requested it. */
  readonly account?: ((sessionId: SessionId, entry: Entry) => Effect.Effect<void>) | undefined
  /** Providers that must not be used at the moment, because another call has reached their rate limit. */
  readonly resting?: Effect.Effect<ReadonlySet<string>> | undefined
}

const readAnswerText = ({ parts }: ModelResponse): string => {
  const said = parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("")
  return said.trim() === ""
    ? parts.flatMap((part) => (part.type === "reasoning" ? [part.text] : [])).join("\n\n")
    : said
}

const makeTimeoutError = (label: string, task: string, seconds: number): AiError.AiError =>
  AiError.make({
    module: "Auxiliary",
    method: task,
    reason: new AiError.NetworkError({
      reason: "TransportError",
      method: "POST",
      url: "",
      description: `${label} did not answer within ${seconds} s: raise auxiliary.${task}.timeout`
    })
  })

const makeNoProviderError = (task: string): ConfigError => {
  const path = `auxiliary.${task}.provider`
  return new ConfigError({
    path,
    message: `No provider for the task "${task}". Set ${path}, or an API key such as OPENROUTER_API_KEY`
  })
}

/** Runs a side task in its span, unless middleware traces the calls. */
const traceTask = <E>(
  { stack }: Interceptors,
  task: string,
  { context: { sessionId } }: TaskRequest,
  called: Effect.Effect<Answer, E>
): Effect.Effect<Answer, E> =>
  stack.isTraced
    ? called
    : OperationSpans.traceOperation(called, () => ({
        name: "Auxiliary.call",
        kind: "internal",
        attributes: { "gen_ai.conversation.id": sessionId, "hermes.task": task }
      }))

/** Dependencies of the service, and the usage of its tasks. */
export interface TaskState extends Pick<Options, "interceptors" | "router" | "settings"> {
  readonly options: Options
  readonly used: Map<string, TaskUsage>
  /** Number of calls. */
  count: number
}

/** Creates the ids of one call: the run's ids, made unique by task and number. */
const makeCallContext = (tasks: TaskState, task: string, { context }: TaskRequest): CallContext => ({
  ...context,
  turnId: TurnId.make(`${context.turnId}:${task}:${++tasks.count}`),
  runTurnId: context.turnId,
  task,
  platform: `auxiliary:${task}`,
  apiCallCount: 1
})

const askRoute = <E>(
  tasks: TaskState,
  task: string,
  { label, route }: TaskRoutes.Candidate,
  given: TaskRequest
): Effect.Effect<ModelAnswer, AiError.AiError | E> => {
  const call: ModelCall = {
    messages: given.messages,
    tools: given.tools ?? [],
    toolChoice: given.toolChoice ?? "auto",
    responseFormat: given.responseFormat ?? { type: "text" },
    stream: false,
    maxOutputTokens: given.maxOutputTokens,
    temperature: given.temperature,
    reasoningEffort: given.reasoningEffort,
    compact: given.compact,
    cache: given.cache,
    contextEdits: given.contextEdits,
    conversationId: given.conversationId,
    sharedCacheId: given.sharedCacheId
  }
  const question: Question = {
    call,
    route,
    context: makeCallContext(tasks, task, given),
    userMessage: "",
    options: undefined
  }
  const { timeout } = DerivedSettings.readAuxiliaryTask(tasks.settings, task)
  const asked = Effect.withFiber((fiber) => {
    const run = fiber.getRef(CallingRun)
    const own = { getSpending: run?.getSpending, spending: fiber.getRef(CurrentSpending) }
    return callModel<E>(tasks.router, run?.interceptors ?? tasks.interceptors, { ...question, ...own })
  })
  return asked.pipe(
    Effect.timeoutOrElse({
      duration: `${timeout} seconds`,
      orElse: () => Effect.fail(makeTimeoutError(label, task, timeout))
    })
  )
}

const askInTurn = <E>(
  tasks: TaskState,
  task: string,
  { candidates, explicit }: TaskRoutes.CandidateChoice,
  given: TaskRequest,
  index = 0
): Effect.Effect<ModelAnswer, AiError.AiError | ConfigError | E> => {
  const candidate = candidates[index]
  if (candidate === undefined) return Effect.fail(makeNoProviderError(task))
  const asked = askRoute<E>(tasks, task, candidate, given)
  const next = candidates[index + 1]
  if (explicit || next === undefined) return asked
  return Effect.catchIf(
    asked,
    (error): error is (AiError.AiError | E) & AiError.AiError => AiError.isAiError(error) && isFailoverable(error),
    (error) =>
      Effect.andThen(
        Effect.logDebug(`${candidate.label} cannot do the task ${task} (${error.reason._tag}): asking ${next.label}`),
        askInTurn<E>(tasks, task, { candidates, explicit }, given, index + 1)
      )
  )
}

// Charging is uninterruptible, so that a received answer is always charged, even if the caller is interrupted.
const askAndCharge = <E>(tasks: TaskState, task: string, given: TaskRequest, choice?: TaskRoutes.CandidateChoice) =>
  traceTask(
    tasks.interceptors,
    task,
    given,
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const chosen =
          choice === undefined
            ? chooseRoutes(tasks, task, given, given.images ?? task === "vision")
            : Effect.succeed(choice)
        const answer = yield* restore(Effect.flatMap(chosen, (choice) => askInTurn<E>(tasks, task, choice, given)))
        const usage = Usage.fromResponse(answer.response.usage)
        const cost = answer.cost ?? Cost.makeUnknown("no price for this model")
        const before = tasks.used.get(task) ?? { usage: Usage.zero, cost: Cost.nothing }
        tasks.used.set(task, { usage: Usage.add(before.usage, usage), cost: Cost.addCall(before.cost, cost) })
        if (tasks.options.account !== undefined)
          yield* tasks.options.account(given.context.sessionId, { task, route: answer.route, usage, cost })
        if (given.record !== undefined) yield* given.record({ route: answer.route, usage, cost })
        return { text: readAnswerText(answer.response), response: answer.response, route: answer.route, usage, cost }
      })
    )
  )

/** Tests whether a task is cheaper as a continuation. A route that the settings name for the task is not replaced. */
const prefersContinuation = Effect.fnUntraced(function* (
  tasks: TaskState,
  task: string,
  given: TaskRequest,
  continuation: WarmPrefix.Continuation
) {
  const { router } = tasks
  const { candidates, explicit } = yield* chooseRoutes(tasks, task, given, given.images ?? task === "vision")
  const [first] = candidates
  if (first === undefined) return false
  const { prefix } = continuation
  const route = first.route === undefined ? yield* router.primary : toInfo(first.route)
  if (explicit && !WarmPrefix.isSameRoute(route, prefix.route)) return false
  const inputTokens = CallTokens.estimateTokens(given)
  const identity = prefix.named ?? (router.primaryRoute === undefined ? prefix.route : yield* router.primaryRoute)
  return yield* WarmPrefix.isCheaper(router.catalogue, continuation, { route, inputTokens }, identity)
})

/** Asks a task as a continuation. Returns `undefined` if there is no usable answer. */
const askContinuation = Effect.fnUntraced(function* <E>(
  tasks: TaskState,
  task: string,
  given: TaskRequest,
  { prefix, question }: WarmPrefix.Continuation
) {
  const route: TaskRoutes.Candidate = { label: prefix.route.provider, route: prefix.named }
  const { context, record } = given
  for (const last of [question, WarmPrefix.remindOfText(question)]) {
    const request: TaskRequest = { ...WarmPrefix.continueRequest(prefix, last), context, record }
    const answer = yield* askAndCharge<E>(tasks, task, request, { explicit: true, candidates: [route] })
    if (!answer.response.parts.some(({ type }) => type === "tool-call"))
      return answer.text.trim() === "" || answer.response.finishReason === "length" ? undefined : answer
  }
  return undefined
})

/** Calls a task, as a continuation of a conversation if that is cheaper and possible. */
const callTask = <E>(
  tasks: TaskState,
  task: string,
  given: TaskRequest
): Effect.Effect<Answer, AiError.AiError | ConfigError | E> => {
  const { continuation } = given
  const asked = askAndCharge<E>(tasks, task, given)
  if (continuation === undefined) return asked
  const continued = Effect.flatMap(prefersContinuation(tasks, task, given, continuation), (isPreferred) =>
    isPreferred ? askContinuation<E>(tasks, task, given, continuation) : Effect.undefined
  )
  return Effect.catchIf(
    continued,
    (error): error is (AiError.AiError | E) & AiError.AiError => AiError.isAiError(error),
    (error) =>
      Effect.as(
        Effect.logInfo(`the conversation could not be continued for the task ${task}: ${error.message}`),
        undefined
      )
  ).pipe(Effect.flatMap((answer) => (answer === undefined ? asked : Effect.succeed(answer))))
}

/** Creates the service. `E` has the same meaning as in `ModelRouter.call`. */
export const make = <E = never>(options: Options): Service<E> => {
  const { interceptors, router, settings } = options
  const tasks: TaskState = { options, interceptors, router, settings, used: new Map(), count: 0 }
  return {
    call: (task, given) => callTask<E>(tasks, task, given),
    resolve: (task, overrides = {}) =>
      Effect.flatMap(chooseRoutes(tasks, task, overrides, task === "vision"), ({ candidates: [first] }) =>
        first === undefined
          ? Effect.succeed(undefined)
          : first.route === undefined
            ? router.primary
            : Effect.succeed({ ...first.route, baseUrl: first.route.baseUrl })
      ),
    used: Effect.sync(() => new Map(tasks.used))
  }
}
