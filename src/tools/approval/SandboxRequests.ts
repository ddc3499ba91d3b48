/**
 * Requests permission during a tool call for a host that is not listed, a host that a request is redirected to, or a
 * command outside its sandbox. Each request is decided like every other approval, for the session of the call.
 *
 * **Details**
 *
 * A host is approved as a host (`host: example.com`), once, for the session or permanently. Running outside the sandbox
 * is approved for the prefix of the command (`git push`) if it has one, otherwise for the command; the approval holds
 * once or for the session. Modes that skip questions (yolo, `approvals.mode: off`) do not open a sandbox, because they
 * do not permit leaving it. If the bounds of the run confine it (`ApprovalBounds`), no command runs outside and no
 * question is asked. The modes that skip questions do allow redirects of the web tools, because they allow the first
 * request.
 *
 * **Gotchas**
 *
 * A process that a call left running in the background can reach the previously approved hosts, and asks no further
 * questions.
 *
 * Source: `ARCHITECTURE.md` §7 ("walls", "approvals").
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import { HostRequests, type Service as Environment } from "../../places/CommandEnvironment.ts"
import * as WorkingTree from "../../places/WorkingTree.ts"
import type { ToolArguments } from "../../middleware/Kind.ts"
import type * as Approvals from "../Approvals.ts"
import { readBounds } from "./ApprovalBounds.ts"
import * as ApprovalTarget from "./ApprovalTarget.ts"
import * as InteractiveMode from "./InteractiveMode.ts"
import { KeepRequest, listFiles } from "./PlantedRequests.ts"
import type { Concern } from "./ApprovalRequest.ts"
import * as EgressGate from "../fence/EgressGate.ts"
import * as RepositorySettings from "../fence/RepositorySettings.ts"
import { ToolContext } from "../ToolContext.ts"

/** The call that a question concerns if another call is running, for a process in the background. */
interface Origin {
  readonly tool: string
  readonly args: ToolArguments
}

/**
 * Asks whether the current command may run outside its sandbox. Returns `undefined` if it may, or the reason for the
 * model why it may not.
 */
const RunOutside = Context.Reference<
  (reason: string, origin: Origin | undefined, further: ReadonlyArray<Concern>) => Effect.Effect<string | undefined>
>("hermes-effect/tool/approval/RunOutside", {
  defaultValue: () => () => Effect.succeed("There is no user here who could let it run outside of the sandbox.")
})

const findGitConcerns = Effect.fnUntraced(function* ({
  command,
  cwd
}: {
  readonly command: string
  readonly cwd: string
}) {
  const { findTreeRoot } = yield* WorkingTree.make(undefined)
  return yield* RepositorySettings.findCommandConcerns(command, cwd, yield* findTreeRoot((yield* ToolContext).cwd))
})

/** A command that the sandbox blocked. */
interface StoppedCommand {
  readonly reason: string
  /** Reason for the model why the command stays inside the sandbox; `undefined` if the user lets it run outside. */
  readonly refusal: string | undefined
}

/**
 * Asks about a failed command if its output shows that the sandbox stopped it; otherwise returns `undefined`.
 * `refused` are the hosts that the sandbox refused. `line` is the command and its directory: repositories whose git
 * settings the sandbox did not protect may now have settings that run programs outside. `origin` is the call that the
 * command belongs to, if it differs from the served call.
 */
export const handleWallStop = Effect.fnUntraced(function* (
  { explain, outside }: Environment,
  output: string,
  refused: Iterable<string>,
  line?: { readonly command: string; readonly cwd: string },
  origin?: Origin
): Effect.fn.Return<StoppedCommand | undefined, never, Path.Path | ToolContext> {
  const explanation = explain(output, Array.from(refused))
  if (explanation === undefined) return undefined
  const { isAsked, reason, setting } = explanation
  const remark = `Do not work around it: tell the user what needs more, who can change ${setting}.`
  if (isAsked || outside === undefined) return { reason, refusal: remark }
  const further =
    line === undefined ? [] : yield* Effect.provideService(findGitConcerns(line), FileSystem.FileSystem, outside.files)
  const refusal = yield* (yield* RunOutside)(reason, origin, further)
  return { reason, refusal: refusal === undefined ? undefined : `${refusal} ${remark}` }
})

const nobodyAsked = "Approvals are off, so no user was asked to let it out of the sandbox, and the sandbox holds."

const isBypass = (by: Approvals.Permit["by"]): boolean => by === "yolo" || by === "off"

const standardPorts = [80, 443]

/** Provides a call with {@link RunOutside} and the hosts that it may request, until the call ends. */
export const provideRequests = <A, E, R>(
  run: Effect.Effect<A, E, R>,
  approvals: Approvals.Service,
  call: Approvals.Call
): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.zip(Effect.context<never>(), readBounds), ([services, { confinement }]) => {
    let isServed = true
    const command = ApprovalTarget.fromCall(call.tool, call.args, call.runs)
    const resolveOrigin = ({ args, tool }: Origin) => ({
      target: ApprovalTarget.fromCall(tool, args),
      asked: { ...call, tool, args, runs: undefined, concerns: undefined }
    })
    const requestHost = (name: string, isListed = false) => {
      const asked = approvals.request({
        tool: call.tool,
        command: command.text(),
        concerns: [EgressGate.makeHostConcern(name)],
        isListed,
        sessionKey: call.sessionKey
      })
      const answer = isServed
        ? asked
        : Effect.provideService(
            asked,
            InteractiveMode.InteractiveMode,
            InteractiveMode.makeUnattended("background process")
          )
      return Effect.provideContext(
        Effect.map(answer, ({ by, outcome }) => ({ by, isAllowed: outcome !== "deny" && outcome !== "timeout" })),
        services
      )
    }
    const requests: HostRequests = {
      refused: new Set(),
      ask: (host, port, isListed) =>
        Effect.map(
          requestHost(standardPorts.includes(port) ? host : `${host}:${port}`, isListed),
          ({ by, isAllowed }) => isAllowed && !isBypass(by)
        )
    }
    const requestOutside = (reason: string, origin: Origin | undefined, further: ReadonlyArray<Concern>) => {
      if (confinement !== undefined) return Effect.succeed(confinement)
      const { asked, target } = origin === undefined ? { asked: call, target: command } : resolveOrigin(origin)
      const concern = {
        key: `run outside of the sandbox, because ${reason}`,
        permanent: false,
        target: target.prefix() ?? target.target()
      }
      const checked = approvals.check({
        ...asked,
        isConfined: false,
        leavesWall: true,
        concerns: [...(asked.concerns ?? []), ...further, concern]
      })
      return Effect.provideContext(
        Effect.map(checked, (answer) =>
          answer._tag === "Permit" ? (isBypass(answer.by) ? nobodyAsked : undefined) : readRefusal(answer)
        ),
        services
      )
    }
    // A running call is never suspended: it would run again.
    const readRefusal = (answer: Approvals.Refusal | Approvals.SuspendedApproval): string =>
      answer._tag === "Refusal" ? answer.message : nobodyAsked
    const requestKeep = (files: ReadonlyArray<string>) => {
      const concern = {
        key: `keep ${listFiles(files)}, from which programs run something later, and which a command made`,
        permanent: false
      }
      const asked = approvals.request({
        tool: call.tool,
        command: command.text(),
        concerns: [concern],
        sessionKey: call.sessionKey
      })
      return Effect.provideContext(
        Effect.map(asked, ({ by, outcome }) => outcome !== "deny" && outcome !== "timeout" && !isBypass(by)),
        services
      )
    }
    return run.pipe(
      Effect.provideService(HostRequests, requests),
      Effect.provideService(KeepRequest, requestKeep),
      Effect.provideService(EgressGate.FurtherHosts, (host, isListed) =>
        Effect.map(requestHost(host, isListed), ({ isAllowed }) => isAllowed)
      ),
      Effect.provideService(RunOutside, requestOutside),
      Effect.ensuring(
        Effect.sync(() => {
          isServed = false
        })
      )
    )
  })
