/**
 * Loads, approves and runs the user's programs as hooks. They are registered after plugins, so that a plugin's
 * directive takes precedence.
 *
 * **Details**
 *
 * A hook that was never approved, or whose program has changed since, has to be confirmed by the user if one is
 * present, is accepted if the settings allow it, and is otherwise skipped with a warning. The program is compared again
 * before each run. A program that does not start, times out or prints unreadable output has no effect on the run.
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

/** Settings of the shell hooks. */
export interface Settings extends Process.Surroundings {
  /** Value of `hooks:` in the configuration. */
  readonly block: unknown
  /** Home directory of hermes: `HERMES_HOME`. */
  readonly home: string
  /** True if hooks that were never seen are accepted without a question (`hooks_auto_accept`). */
  readonly accept: boolean
  /** Asks the user to approve a hook. Absent if no user is present. */
  readonly confirm?: ((hook: Config.ShellHook, consent: Consent.Consent) => Effect.Effect<boolean>) | undefined
}

/** A hook of the configuration, and its consent state. */
export interface ListedHook {
  readonly hook: Config.ShellHook
  readonly consent: Consent.Consent
}

/** Outcome of a test run of one hook. */
export interface TriedHook extends ListedHook {
  /** True if its matcher accepts the event. */
  readonly matches: boolean
  /** Outcome of the program. Absent if the hook does not match or may not run. */
  readonly ran: Process.ProgramOutcome | undefined
  /** Directive parsed from its output, as in a run. */
  readonly said: Process.Directive
}

/** Problems of one hook. An empty list means that no problem was found. */
interface Diagnosis extends ListedHook {
  readonly problems: ReadonlyArray<string>
  /** Duration of the test run, absent if the hook was not run. */
  readonly millis: number | undefined
}

/** Loads and runs the shell hooks of a configuration. */
export interface Service {
  /** Hooks that may run, ready to be registered. Asks for approval, and logs a warning for each other hook. */
  readonly hooks: Effect.Effect<ReadonlyArray<Hook>>
  readonly list: Effect.Effect<ReadonlyArray<ListedHook>>
  /** Tests the hooks of an event with a sample event. `payload` overrides fields of the sample. */
  readonly test: (
    event: string,
    options?: { readonly tool?: string | undefined; readonly payload?: Readonly<Record<string, unknown>> | undefined }
  ) => Effect.Effect<ReadonlyArray<TriedHook>, InvalidInput>
  /** Removes the approvals of a command. Returns their number. */
  readonly revoke: (command: string) => Effect.Effect<number, Consent.ConsentError>
  readonly doctor: Effect.Effect<ReadonlyArray<Diagnosis>>
  /** Parts of the configuration that could not be decoded. */
  readonly warnings: ReadonlyArray<string>
}

const sampleTool = "terminal"

/** Extra time for the second in which a program can stop, and for reading its remaining output. */
const grace = Duration.seconds(10)

const takeFirstLine = (text: string): string => text.trim().split("\n", 1)[0] ?? ""

/** Describes the problem of a test run, or returns `undefined` if it is absent. */
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

/** Creates the shell hooks of a configuration. */
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

    /** Returns true if a hook may run now. Asks the user with `confirm` if it is set. */
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
