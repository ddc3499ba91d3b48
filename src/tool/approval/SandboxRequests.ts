/**
 * Asks for what the wall around a tool call does not let it do: a host that is not listed, or its command without the wall. Both take
 * the way of every other approval, for the session of the call.
 *
 * **Details**
 *
 * A host is approved as a host (`host: example.com`), once, for the session or for good. To run outside is approved for the prefix of the
 * command (`git push`) where it has one, else for the command, once or for the session. What skips questions (yolo, `approvals.mode: off`)
 * opens no wall: nobody said that this may leave it.
 *
 * **Gotchas**
 *
 * A process that a call left in the background reaches the hosts that were approved before, and asks no further question.
 *
 * Source: `ARCHITECTURE.md` §7 ("walls", "approvals").
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HostRequests } from "../../environment/CommandEnvironment.ts"
import type * as Approvals from "../Approvals.ts"
import * as ApprovalTarget from "./ApprovalTarget.ts"
import * as InteractiveMode from "./InteractiveMode.ts"

/** Asks whether the command that is served may run outside of its sandbox; answers undefined, or for the model why it may not. */
export const RunOutside = Context.Reference<(reason: string) => Effect.Effect<string | undefined>>("hermes-effect/tool/approval/RunOutside", {
  defaultValue: () => () => Effect.succeed("There is no user here who could let it run outside of the sandbox.")
})

const nobodyAsked = "Approvals are off, so no user was asked to let it out of the sandbox, and the sandbox holds."

const opensNothing = (by: Approvals.Permit["by"]): boolean => by === "yolo" || by === "off"

const standardPorts = [80, 443]

/** Gives a call its {@link RunOutside} and the hosts that it may ask for, until it ends. */
export const serve = <A, E, R>(run: Effect.Effect<A, E, R>, approvals: Approvals.Service, call: Approvals.Call): Effect.Effect<A, E, R> =>
  Effect.flatMap(Effect.context<never>(), (services) => {
    let isServed = true
    const command = ApprovalTarget.of(call.tool, call.args, call.runs)
    const requests: HostRequests = {
      refused: new Set(),
      ask: (host, port) => {
        const name = standardPorts.includes(port) ? host : `${host}:${port}`
        const concern = { key: `request to ${name}, a host that is not approved`, permanent: true, target: { kind: "host", text: name } } as const
        const asked = approvals.request({ tool: call.tool, command: command.text(), concerns: [concern], sessionKey: call.sessionKey })
        const answer = isServed ? asked : Effect.provideService(asked, InteractiveMode.InteractiveMode, InteractiveMode.unattended("background process"))
        return Effect.provideContext(Effect.map(answer, ({ by, outcome }) => outcome !== "deny" && outcome !== "timeout" && !opensNothing(by)), services)
      }
    }
    const outside = (reason: string) => {
      const concern = { key: `run outside of the sandbox, because ${reason}`, permanent: false, target: command.prefix() ?? command.target() }
      const checked = approvals.check({ ...call, isConfined: false, leavesWall: true, concerns: [...call.concerns ?? [], concern] })
      return Effect.provideContext(
        Effect.map(checked, (answer) => answer._tag === "Refusal" ? answer.message : opensNothing(answer.by) ? nobodyAsked : undefined),
        services
      )
    }
    return run.pipe(
      Effect.provideService(HostRequests, requests),
      Effect.provideService(RunOutside, outside),
      Effect.ensuring(Effect.sync(() => {
        isServed = false
      }))
    )
  })
