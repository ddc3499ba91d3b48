/**
 * The user's own programs as hooks: which there are, which may run, and running them. They are registered after
 * plugins, so that a plugin's directive wins.
 *
 * **Details**
 *
 * A hook that was never approved, or whose program has changed since, is confirmed by the user if one is present,
 * accepted if the settings accept it, and otherwise left out with a warning. The program is compared again before each
 * run. A program that does not start, times out or prints unreadable output changes nothing.
 *
 * Source: `hermes-contract.md` §3.7, `hermes-product.md` §1.5.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import * as Digest from "effect/crypto/Digest"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { findNearest } from "../base/domain/Similarity.ts"
import { InvalidInput } from "../base/domain/AgentError.ts"
import { UserPrograms } from "../base/config/UserPrograms.ts"
import type { Hook } from "./Hook.ts"
import * as IsolatedCall from "../base/domain/IsolatedCall.ts"
import { isHookName, names } from "./Payloads.ts"
import * as Config from "./ShellHookConfig.ts"
import * as Consent from "./ShellHookConsent.ts"
import * as Process from "./ShellHookProcess.ts"

/** Input of the shell hooks. */
export interface Settings extends Process.Surroundings {
  /** The value of `hooks:` in the configuration. */
  readonly block: unknown
  /** `HERMES_HOME`. */
  readonly home: string
  /** True when hooks that were never seen are accepted without a question (`hooks_auto_accept`). */
  readonly accept: boolean
  /** Asks the user; absent when no user is present. */
  readonly confirm?: ((hook: Config.ShellHook, consent: Consent.Consent) => Effect.Effect<boolean>) | undefined
}

/** A hook of the configuration and whether it may run. */
export interface ListedHook {
  readonly hook: Config.ShellHook
  readonly consent: Consent.Consent
}

/** Outcome of one hook when it was tried. */
export interface TriedHook extends ListedHook {
  /** True when its matcher wants the event. */
  readonly matches: boolean
  /** Absent when it does not match or may not run. */
  readonly ran: Process.ProgramOutcome | undefined
  /** Its output, as a run would take it. */
  readonly said: Process.Directive
}

/** Problems of one hook; none when the list is empty. */
interface Diagnosis extends ListedHook {
  readonly problems: ReadonlyArray<string>
  /** Time it took when it was tried; absent when it was not. */
  readonly millis: number | undefined
}

/** Loads and runs the shell hooks of a configuration. */
export interface Service {
  /** The hooks that may run, ready to be registered. Asks, and warns about the others. */
  readonly hooks: Effect.Effect<ReadonlyArray<Hook>>
  readonly list: Effect.Effect<ReadonlyArray<ListedHook>>
  /** Tries the hooks of an event on a made-up one; `payload` overrides its fields. */
  readonly test: (
    event: string,
    options?: { readonly tool?: string | undefined; readonly payload?: Readonly<Record<string, unknown>> | undefined }
  ) => Effect.Effect<ReadonlyArray<TriedHook>, InvalidInput>
  /** Forgets that a command was agreed to; how many approvals there were. */
  readonly revoke: (command: string) => Effect.Effect<number, Consent.ConsentError>
  readonly doctor: Effect.Effect<ReadonlyArray<Diagnosis>>
  /** Parts of the configuration that were not understood. */
  readonly warnings: ReadonlyArray<string>
}

const sampleTool = "terminal"

/** Room for the second that a program has to stop, and for reading the rest of its output. */
const grace = Duration.seconds(10)

const takeFirstLine = (text: string): string => text.trim().split("\n", 1)[0] ?? ""

/** Describes what went wrong; undefined when nothing did. */
const describeProblem = (ran: Process.ProgramOutcome): string | undefined => {
  switch (ran._tag) {
    case "NotStarted":
      return `did not start: ${ran.message}`
    case "TimedOut":
      return `took longer than ${ran.seconds}s and was stopped`
    case "Exited": {
      if (ran.exitCode === 0) return undefined
      const line = takeFirstLine(ran.stderr)
      return `${ran.exitCode === undefined ? "was killed" : `exited with ${ran.exitCode}`}${line === "" ? "" : `: ${line}`}`
    }
  }
}

const toUnknownEventError = (event: string): InvalidInput => {
  const meant = findNearest(event, names)
  return new InvalidInput({
    message: `no hook "${event}": ${meant === undefined ? `one of ${names.join(", ")}` : `did you mean ${meant}?`}`
  })
}

/** Shell hooks of a configuration. */
export const make = (
  settings: Settings
): Effect.Effect<Service, never, FileSystem.FileSystem | Path.Path | ChildProcessSpawner> =>
  Effect.gen(function* () {
    const spawner = yield* ChildProcessSpawner
    const programs = yield* UserPrograms
    const consent = yield* Consent.make(settings.home, settings).pipe(Effect.provide(Digest.layerWebCrypto))
    const { hooks, warnings } = Config.decode(settings.block)
    const warn = IsolatedCall.makeFaultReporter()

    const runHook = (hook: Config.ShellHook, payload: object): Effect.Effect<Process.ProgramOutcome> =>
      Process.runProgram(hook, Process.formatInput(hook.event, payload, settings.cwd), settings).pipe(
        Effect.provideService(ChildProcessSpawner, spawner),
        Effect.provideService(UserPrograms, programs)
      )

    const readHookOutput = (hook: Config.ShellHook, ran: Process.ProgramOutcome): Process.Directive =>
      ran._tag === "Exited" ? Process.readDirective(hook.event, ran.stdout) : undefined

    const recordConsent = (hook: Config.ShellHook): Effect.Effect<void> =>
      Effect.catch(consent.approve(hook), (error) => Effect.logWarning(error.message))

    /** True when a hook may run now. `ask` is whether this is the moment for a question. */
    const isAllowed = Effect.fnUntraced(function* (hook: Config.ShellHook, confirm: Settings["confirm"]) {
      const status = yield* consent.status(hook)
      if (status === "approved") return true
      const agreed = settings.accept || (confirm !== undefined && (yield* confirm(hook, status)))
      if (agreed) yield* recordConsent(hook)
      else {
        yield* warn(
          `shell hook "${hook.command}" on ${hook.event} is skipped: ` +
            (status === "changed" ? "its program changed since it was approved" : "it is not approved") +
            "; approve it in a terminal, or with --accept-hooks"
        )
      }
      return agreed
    })

    const toHook = (hook: Config.ShellHook): Hook => {
      const matches = Config.makeToolMatcher(hook)
      return {
        label: `shell hook "${hook.command}"`,
        delivery: { mode: "inline" },
        listeners: [
          {
            event: hook.event,
            deadline: Duration.sum(Duration.seconds(hook.timeoutSeconds), grace),
            onFailure: "open",
            handle: Effect.fnUntraced(function* (payload) {
              if (!matches(Reflect.get(payload, "tool_name")) || !(yield* isAllowed(hook, undefined))) return undefined
              const ran = yield* runHook(hook, payload)
              const problem = describeProblem(ran)
              if (problem !== undefined) yield* warn(`shell hook "${hook.command}" on ${hook.event} ${problem}`)
              return readHookOutput(hook, ran)
            })
          }
        ]
      }
    }

    const readConsent = (hook: Config.ShellHook): Effect.Effect<ListedHook> =>
      Effect.map(consent.status(hook), (consent) => ({ hook, consent }))

    const tryHook = (hook: Config.ShellHook, payload: object) =>
      Effect.gen(function* () {
        const { consent } = yield* readConsent(hook)
        const matches = Config.makeToolMatcher(hook)(Reflect.get(payload, "tool_name"))
        const ran = matches && consent === "approved" ? yield* runHook(hook, payload) : undefined
        const said = ran === undefined ? undefined : readHookOutput(hook, ran)
        return { hook, consent, matches, ran, said } satisfies TriedHook
      })

    const diagnoseHook = (hook: Config.ShellHook): Effect.Effect<Diagnosis> =>
      Effect.gen(function* () {
        const tool = hook.matcher !== undefined && /^\w+$/.test(hook.matcher) ? hook.matcher : sampleTool
        const { consent, ran } = yield* tryHook(
          { ...hook, matcher: undefined },
          Process.makeSampleEvent(hook.event, tool, {})
        )
        const problems = [
          ...(consent === "unseen" ? ["not approved: it does not run"] : []),
          ...(consent === "changed" ? ["its program changed since it was approved: it does not run"] : []),
          ...(ran === undefined ? [] : [describeProblem(ran) ?? []].flat()),
          ...(ran?._tag === "Exited" && ran.stdout.trim() !== "" && readHookOutput(hook, ran) === undefined
            ? [`its output has no meaning for ${hook.event}: ${takeFirstLine(ran.stdout).slice(0, 80)}`]
            : [])
        ]
        return { hook, consent, problems, millis: ran?._tag === "Exited" ? ran.millis : undefined }
      })

    return {
      warnings,
      hooks: Effect.gen(function* () {
        for (const warning of warnings) yield* warn(warning)
        const allowed = yield* Effect.filter(hooks, (hook) => isAllowed(hook, settings.confirm))
        return allowed.map(toHook)
      }),
      list: Effect.forEach(hooks, readConsent),
      test: (event, options = {}) => {
        if (!isHookName(event)) return Effect.fail(toUnknownEventError(event))
        const payload = Process.makeSampleEvent(event, options.tool ?? sampleTool, options.payload ?? {})
        return Effect.forEach(
          hooks.filter((hook) => hook.event === event),
          (hook) => tryHook(hook, payload)
        )
      },
      revoke: consent.revoke,
      doctor: Effect.forEach(hooks, diagnoseHook)
    }
  })
