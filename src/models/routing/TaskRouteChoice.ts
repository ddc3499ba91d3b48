/** Chooses the routes of a side task, and the failures after which its next route is asked. */
import * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import { CurrentSpending } from "./SpendingPort.ts"
import * as TaskRoutes from "./TaskRoutes.ts"
import * as Evidence from "./classification/Evidence.ts"
import type { TaskState } from "./Auxiliary.ts"

/**
 * Tests whether the router made no request because the provider must not be used at the moment (`RateGuard`, the
 * request pace of a key).
 */
const isResting = (error: AiError.AiError): boolean =>
  error.module === "ModelRouter" && error.reason._tag === "RateLimitError"

/** Providers whose keys may be taken from a pool. */
const pooled = ["openrouter", "nous", "openai-codex", "anthropic"]

const money = /credits|insufficient funds|can only afford|billing|payment required/

/** Tests whether the call failed because the account has no credit left. */
const isPayment = (error: AiError.AiError): boolean => {
  if (error.reason._tag === "QuotaExhaustedError") return true
  const { status, text } = Evidence.collectEvidence(error)
  return status === 402 || ((status === 429 || status === undefined) && money.test(text))
}

/** Tests whether the call failed because the provider cannot be reached or does not answer in time. */
const isConnection = (error: AiError.AiError): boolean =>
  error.reason._tag === "NetworkError" && error.reason.reason !== "InvalidUrlError"

/** Tests whether another provider may succeed after this failure. Any other failure would be repeated there. */
export const isFailoverable = (error: AiError.AiError): boolean =>
  isPayment(error) || isConnection(error) || isResting(error)

const findPoolKey = (
  { options, settings }: TaskState,
  provider: string
): Effect.Effect<TaskRoutes.PoolKey | undefined> => {
  if (options.pool !== undefined) return options.pool(provider)
  const key = Object.hasOwn(settings.credentials, provider) ? settings.credentials[provider]?.apiKeys[0] : undefined
  return Effect.succeed(key === undefined ? undefined : { _tag: "Key", key })
}

/** Collects everything on which the routes of a task depend. */
const collectSurroundings = (tasks: TaskState): Effect.Effect<TaskRoutes.TaskSurroundings> =>
  Effect.gen(function* () {
    const keys = new Map<string, TaskRoutes.PoolKey>()
    for (const provider of new Set([...pooled, ...Object.keys(tasks.settings.credentials)])) {
      const key = yield* findPoolKey(tasks, provider)
      if (key !== undefined) keys.set(provider, key)
    }
    return {
      settings: tasks.settings,
      lookup: tasks.options.lookup ?? (() => undefined),
      main: yield* tasks.router.primary,
      pool: (provider) => keys.get(provider),
      resting: tasks.options.resting === undefined ? new Set<string>() : yield* tasks.options.resting
    }
  })

export const chooseRoutes = (
  tasks: TaskState,
  task: string,
  overrides: TaskRoutes.Overrides,
  images: boolean
): Effect.Effect<TaskRoutes.CandidateChoice, ConfigError> =>
  Effect.withFiber((fiber) => {
    const routes = fiber.getRef(CurrentSpending)?.routes
    const choice = routes === undefined ? undefined : TaskRoutes.chooseTenantCandidates(routes, task, overrides)
    return choice === undefined
      ? Effect.flatMap(collectSurroundings(tasks), (world) =>
          Effect.fromResult(TaskRoutes.chooseCandidates(world, task, overrides, images))
        )
      : Effect.succeed(choice)
  })
