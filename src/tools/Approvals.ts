/**
 * Decides whether a tool call may run, based on the hardline floor, the operator's deny and allow rules, and earlier
 * approvals. If a danger remains, it asks the user.
 *
 * **Details**
 *
 * The order is fixed: hardline floor → operator's deny globs and `permissions.deny` → yolo or `approvals.mode: off` →
 * `permissions.ask` → allow-list and `permissions.allow` → detection → mode. Nothing lifts the floor, and yolo does not
 * lift the globs and `permissions.deny`. Detected dangers without an earlier approval lead to a question: first to a
 * model if the mode is `smart`, then to the {@link Approver}. No answer and an unknown answer count as deny. So does a
 * question when no user can be asked, unless the context says otherwise.
 *
 * An approval holds for the target of the question: one command line, one path, one host, one call of a tool with its
 * arguments, or, if the question offers it, for commands with the same prefix (`git push`); never for a kind of danger.
 * `once` stores nothing, and `session` applies to the session key. `always` is stored as a rule in `permissions.allow`
 * if a rule matches exactly this target (the question names the rule), and as an entry of the allow-list otherwise.
 * `always` is not offered, and counts as `session`, when a finding may not be approved permanently. This applies to the
 * findings of the content scanner (`security.tirith_enabled`), which runs during detection, except for calls that can
 * never raise a question.
 *
 * A {@link Permit} holds for the judged arguments only: a call with other arguments is judged again in full.
 *
 * **Example** (Deciding approvals in an application)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Approvals, Runtime, TerminalTools } from "hermes-effect"
 *
 * const asked: Array<string> = []
 * const approvals = Approvals.layerCallback(({ command }) => Effect.sync(() => {
 *   asked.push(command)
 *   return "deny"
 * }))
 *
 * const program = Agent.run({ prompt: "Use the terminal tool exactly once to run 'rm -rf build'." })
 *
 * await Effect.runPromise(Effect.provide(program, Runtime.layer({ tools: [TerminalTools.toolset], approvals })))
 *
 * console.log(asked)
 * // => [ 'rm -rf build' ]
 * ```
 *
 * Source: `hermes-llm.md` §19.7, `hermes-product.md` §1.10, `ARCHITECTURE.md` §4 and §7.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as PermissionMode from "../base/config/PermissionMode.ts"
import type { Settings } from "../base/config/Settings.ts"
import type { Hooks } from "../hooks/Hooks.ts"
import { ApprovalJudge } from "./approval/ApprovalJudge.ts"
import {
  addPlainCheck,
  type Call,
  findPlainCheck,
  type Options,
  type Permit,
  type Policy,
  type Service
} from "./approval/ApprovalPolicy.ts"
import { Permissions } from "./approval/CurrentPermissions.ts"
import { collectRunTexts } from "./approval/ApprovalReasons.ts"
import { ApprovalPrompt, makeCallbackApprover, type PendingQueue, makeTerminalApprover } from "./approval/Approver.ts"
import type { Question } from "./approval/ApprovalRequest.ts"

export { defaultPolicy } from "./approval/ApprovalPolicy.ts"
export type {
  Call,
  Mode,
  Options,
  Permit,
  Policy,
  Refusal,
  Request,
  Service,
  SuspendedApproval
} from "./approval/ApprovalPolicy.ts"

/** The approvals of a runtime. */
export class Approvals extends Context.Service<Approvals, Service>()("hermes-effect/tool/Approvals") {}

/**
 * Loads the code that judges calls. A runtime loads it once, when it creates its approvals; {@link makeUnattended}
 * loads it when the first call has to be judged.
 */
const order = Effect.promise(() => import("./approval/ApprovalOrder.ts"))

/** Creates approvals from their options. */
export const make = (options: Options): Effect.Effect<Service> => Effect.map(order, ({ make }) => make(options))

/**
 * Creates approvals without policy and rules, which load their judge for the first call that needs one. A call that
 * runs no command and has no reason to ask needs none, so an agent without such tools never loads a judge.
 */
const makeDeferred = (judge: Effect.Effect<Service>): Service => {
  let made: Service | undefined
  const judging = Effect.suspend(() =>
    made === undefined ? Effect.map(judge, (service) => (made ??= service)) : Effect.succeed(made)
  )
  const canSkipJudge = ({ args, concerns = [], contained, runs, tool }: Call): boolean => {
    const { inputs, lines } = collectRunTexts(tool, args, runs)
    return made === undefined && contained !== true && concerns.length + lines.length + inputs.length === 0
  }
  const requestJudgement = (call: Call) => Effect.flatMap(judging, ({ check }) => check(call))
  const permitUnjudged = (call: Call, fiber: Fiber.Fiber<unknown, unknown>): Permit | undefined =>
    canSkipJudge(call) && PermissionMode.readFiberMode(fiber) !== "plan"
      ? { _tag: "Permit", call, by: "nothing found", choice: undefined }
      : undefined
  const service: Service = {
    check: (call) =>
      Effect.withFiber((fiber) => {
        const permit = permitUnjudged(call, fiber)
        return permit === undefined ? requestJudgement(call) : Effect.succeed(permit)
      }),
    request: (request) => Effect.flatMap(judging, (service) => service.request(request)),
    setYolo: (session, on) => Effect.flatMap(judging, (service) => service.setYolo(session, on)),
    setMode: (session, mode) => Effect.flatMap(judging, (service) => service.setMode(session, mode)),
    forget: (session) => Effect.suspend(() => made?.forget(session) ?? Effect.void)
  }
  return addPlainCheck(service, (call, session, fiber) =>
    made === undefined ? permitUnjudged(call, fiber) : findPlainCheck(made)?.(call, session, fiber)
  )
}

/** Creates the default approvals of an agent: they ask no user and deny calls that need an approval. */
export const makeUnattended = (hooks: Options["hooks"]): Service =>
  makeDeferred(Effect.map(order, ({ make }) => make({ hooks })))

const layerFromOptions = (options: Omit<Options, "hooks">): Layer.Layer<Approvals, never, Hooks> =>
  Layer.effect(
    Approvals,
    Effect.flatMap(order, ({ makeService }) => makeService(options))
  )

/** Denies every call that needs an approval, without asking. */
export const layerDeny = (policy: Partial<Policy> = {}): Layer.Layer<Approvals, never, Hooks> =>
  Layer.effect(
    Approvals,
    Effect.contextWith((context: Context.Context<Hooks>) => {
      const judge = Effect.provideContext(
        Effect.flatMap(order, ({ makeService }) => makeService({ policy })),
        context
      )
      const isPlain = Object.keys(policy).length === 0 && Context.get(context, Permissions) === undefined
      return isPlain ? Effect.succeed(makeDeferred(judge)) : judge
    })
  )

/** Allows listed calls and calls that need no approval, without asking. */
export const layerAllowList = (allow: ReadonlyArray<string>): Layer.Layer<Approvals, never, Hooks> =>
  layerFromOptions({ policy: { allow } })

/** Asks a function of the application. */
export const layerCallback = (
  answer: (question: Question) => Effect.Effect<unknown, unknown>,
  policy: Partial<Policy> = {}
): Layer.Layer<Approvals, never, Hooks> => layerFromOptions({ policy, approver: makeCallbackApprover(answer) })

/** Asks a person at a terminal. */
export const layerPrompt = (policy: Partial<Policy> = {}): Layer.Layer<Approvals, never, ApprovalPrompt | Hooks> =>
  Layer.unwrap(
    Effect.map(ApprovalPrompt, (prompt) => layerFromOptions({ policy, approver: makeTerminalApprover(prompt) }))
  )

/** Asks a model first. Questions that the model leaves open go to the person at the terminal, if there is one. */
export const layerSmart = (policy: Partial<Policy> = {}): Layer.Layer<Approvals, never, ApprovalJudge | Hooks> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const judge = yield* ApprovalJudge
      const prompt = Option.getOrUndefined(yield* Effect.serviceOption(ApprovalPrompt))
      return layerFromOptions({
        policy: { ...policy, mode: "smart" },
        judge,
        approver: prompt === undefined ? undefined : makeTerminalApprover(prompt)
      })
    })
  )

/**
 * Asks a remote user by a message or on a page. The user answers through the queue (`Approver.makePendingQueue`). A
 * missing answer counts as deny after `approvals.gateway_timeout` (five minutes without settings), unless the queue or
 * the policy says otherwise.
 */
export const layerPending = (
  { approver }: PendingQueue,
  policy: Partial<Policy> = {}
): Layer.Layer<Approvals, never, Hooks> =>
  Layer.effect(
    Approvals,
    Effect.flatMap(order, ({ fromQueue }) => fromQueue(approver, policy))
  )

/** Creates approvals from the settings. Uses a prompt and a judge if they are provided. */
export const layer = (
  options: { readonly yolo?: boolean | undefined } = {}
): Layer.Layer<Approvals, never, Hooks | Settings> =>
  Layer.effect(
    Approvals,
    Effect.flatMap(order, ({ fromSettings }) => fromSettings(options))
  )
