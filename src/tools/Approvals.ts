/**
 * Decides whether a tool call may run: by the floor, the operator's rules to deny and allow, and earlier approvals. If
 * a danger remains, the user is asked.
 *
 * **Details**
 *
 * The order is fixed: hardline floor → operator's deny globs and `permissions.deny` → yolo or `approvals.mode: off` →
 * `permissions.ask` → allow-list and `permissions.allow` → detection → mode. Nothing lifts the floor, and yolo does not
 * lift the globs and `permissions.deny`. Findings of detection without an earlier approval are asked about: a model
 * first when the mode is `smart`, then the {@link Approver}. Silence and an unknown answer count as deny, and so does a
 * question when no user can be asked, unless the context says otherwise.
 *
 * An approval holds for the target of the question: one command line, one path, one host, one call of a tool with its
 * arguments, or, if the question offers it, for commands with the same prefix (`git push`); never for a kind of danger.
 * `once` stores nothing, `session` holds for the session key, `always` is written as a rule of `permissions.allow` if
 * one matches exactly that (the question names it), else as an entry of the allow-list; it is not offered, and counts
 * as `session`, when a finding may not be approved permanently. This applies to the findings of the content scanner
 * (`security.tirith_enabled`), which is asked during detection, and not about calls that can never raise a question.
 *
 * A {@link Permit} holds for the judged arguments only: a call with other arguments is judged again in full.
 *
 * **Example** (An application that decides)
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
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as PermissionMode from "../base/config/PermissionMode.ts"
import type { Settings } from "../base/config/Settings.ts"
import type { Hooks } from "../hooks/Hooks.ts"
import { ApprovalJudge } from "./approval/ApprovalJudge.ts"
import type { Call, Options, Permit, Policy, Service } from "./approval/ApprovalPolicy.ts"
import { collectRunTexts } from "./approval/ApprovalReasons.ts"
import { ApprovalPrompt, makeCallbackApprover, type PendingQueue, makeTerminalApprover } from "./approval/Approver.ts"
import type { Question } from "./approval/Question.ts"

export { defaultPolicy } from "./approval/ApprovalPolicy.ts"
export type { Call, Mode, Options, Permit, Policy, Refusal, Request, Service } from "./approval/ApprovalPolicy.ts"

/** The approvals of a runtime. */
export class Approvals extends Context.Service<Approvals, Service>()("hermes-effect/tool/Approvals") {}

/**
 * Loads what judges. A runtime does so once, when its approvals are made; {@link makeUnattended} with the first call to
 * be judged.
 */
const order = Effect.promise(() => import("./approval/ApprovalOrder.ts"))

/** Approvals by their options alone. */
export const make = (options: Options): Effect.Effect<Service> => Effect.map(order, ({ make }) => make(options))

/**
 * The default approvals of an agent: no user is asked, and calls that need an approval do not run. A call that runs no
 * command and has no reason to ask does not need a judge, so that an agent without such tools never loads one.
 */
export const makeUnattended = (hooks: Options["hooks"]): Service => {
  let made: Service | undefined
  const judging = Effect.suspend(() =>
    made === undefined ? Effect.map(order, ({ make }) => (made ??= make({ hooks }))) : Effect.succeed(made)
  )
  const canSkipJudge = ({ args, concerns = [], contained, runs, tool }: Call): boolean => {
    const { inputs, lines } = collectRunTexts(tool, args, runs)
    return made === undefined && contained !== true && concerns.length + lines.length + inputs.length === 0
  }
  const requestJudgement = (call: Call) => Effect.flatMap(judging, ({ check }) => check(call))
  return {
    check: (call) =>
      Effect.suspend(() => {
        if (!canSkipJudge(call)) return requestJudgement(call)
        const permit: Permit = { _tag: "Permit", call, by: "nothing found", choice: undefined }
        return Effect.flatMap(PermissionMode.current, (mode) =>
          mode === "plan" ? requestJudgement(call) : Effect.succeed(permit)
        )
      }),
    request: (request) => Effect.flatMap(judging, (service) => service.request(request)),
    setYolo: (session, on) => Effect.flatMap(judging, (service) => service.setYolo(session, on)),
    setMode: (session, mode) => Effect.flatMap(judging, (service) => service.setMode(session, mode)),
    forget: (session) => Effect.suspend(() => made?.forget(session) ?? Effect.void)
  }
}

const layerFromOptions = (options: Omit<Options, "hooks">): Layer.Layer<Approvals, never, Hooks> =>
  Layer.effect(
    Approvals,
    Effect.flatMap(order, ({ makeService }) => makeService(options))
  )

/** Denies every call that needs an approval, without asking. */
export const layerDeny = (policy: Partial<Policy> = {}): Layer.Layer<Approvals, never, Hooks> =>
  layerFromOptions({ policy })

/** Allows listed calls and calls that need no approval, without asking. */
export const layerAllowList = (allow: ReadonlyArray<string>): Layer.Layer<Approvals, never, Hooks> =>
  layerFromOptions({ policy: { allow } })

/** A function of the application is asked. */
export const layerCallback = (
  answer: (question: Question) => Effect.Effect<unknown, unknown>,
  policy: Partial<Policy> = {}
): Layer.Layer<Approvals, never, Hooks> => layerFromOptions({ policy, approver: makeCallbackApprover(answer) })

/** A person at a terminal is asked. */
export const layerPrompt = (policy: Partial<Policy> = {}): Layer.Layer<Approvals, never, ApprovalPrompt | Hooks> =>
  Layer.unwrap(
    Effect.map(ApprovalPrompt, (prompt) => layerFromOptions({ policy, approver: makeTerminalApprover(prompt) }))
  )

/** A model is asked first; open questions go to the person at the terminal, if there is one. */
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
 * A remote user is asked, by a message or on a page, and answers through the queue (`Approver.makePendingQueue`).
 * Silence counts as deny after `approvals.gateway_timeout` (five minutes without settings), unless queue or policy say
 * otherwise.
 */
export const layerPending = (
  { approver }: PendingQueue,
  policy: Partial<Policy> = {}
): Layer.Layer<Approvals, never, Hooks> =>
  Layer.effect(
    Approvals,
    Effect.flatMap(order, ({ fromQueue }) => fromQueue(approver, policy))
  )

/** Configured from the settings. Uses a prompt and a judge if they are provided. */
export const layer = (
  options: { readonly yolo?: boolean | undefined } = {}
): Layer.Layer<Approvals, never, Hooks | Settings> =>
  Layer.effect(
    Approvals,
    Effect.flatMap(order, ({ fromSettings }) => fromSettings(options))
  )
