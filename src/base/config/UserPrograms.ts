/**
 * Programs that the user configured: MCP servers and shell hooks. They run on this machine even if the model's commands
 * run in another environment. The setting `sandbox` of a program limits its access.
 *
 * **Details**
 *
 * `full`, the default, runs the program with the rights of the user. `workspace-write` and `read-only` run the program
 * in a `Sandbox`, with the files of `terminal.sandbox` and a separate network. If the sandbox cannot be set up, this is
 * an error, and the program does not run.
 *
 * Files of an untrusted working directory are never run: a command line with a relative path (`./server`) is refused,
 * and a program without a configured directory starts in an empty one, so that `npx` and similar tools find no packages
 * or settings of the project.
 *
 * **Gotchas**
 *
 * If an application uses the runtime as a library, there are no settings and therefore no sandbox. Only `full` is
 * accepted.
 *
 * Source: `ARCHITECTURE.md` §7.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type { ProgramSandbox } from "./ProgramSections.ts"
import { getWorkingDirectory } from "../platform/CurrentProcess.ts"
import { ConfigError } from "../domain/AgentError.ts"

/** Service that starts programs configured by the user. */
export interface Service {
  /**
   * Returns a spawner that starts processes in a sandbox while the scope is open. `setting` is the name of the sandbox
   * setting for use in errors. A process may write to the working tree of its `CallDirectory`.
   */
  readonly getSpawner: (
    setting: string,
    sandbox: ProgramSandbox
  ) => Effect.Effect<ChildProcessSpawner["Service"], ConfigError, ChildProcessSpawner | Scope.Scope>
  /** Directory in which a program starts if no directory is configured. It exists while the scope is open. */
  readonly startDirectory: Effect.Effect<string, ConfigError, Scope.Scope>
  /**
   * Fails if a word of a command line refers to a file in an untrusted working directory. `setting` is the name of the
   * setting that contains the command line.
   */
  readonly admit: (setting: string, words: ReadonlyArray<string>) => Effect.Effect<void, ConfigError>
}

const interpreter = /(?:^|\/)(?:(?:ba|da|k|z)?sh|python[\d.]*|node|ruby|perl|php)$/

/**
 * Tests whether a word of a command line names a file relative to the working directory, for example a script passed to
 * an interpreter. Pure.
 */
export const isRelative = (word: string, position: number, line: ReadonlyArray<string>): boolean =>
  /^\.{1,2}(?:\/|$)/.test(word) ||
  (position === 0 && /^[^/].*\//.test(word)) ||
  (position === 1 && /^[^/-]/.test(word) && interpreter.test(line[0] ?? ""))

/** Starts programs configured by the user. The default, for libraries, has no sandbox. */
export const UserPrograms = Context.Reference<Service>("hermes-effect/environment/UserPrograms", {
  defaultValue: () => ({
    getSpawner: (setting, sandbox) =>
      sandbox === "full"
        ? Effect.service(ChildProcessSpawner)
        : Effect.fail(
            new ConfigError({
              path: setting,
              message: `${setting}: there is no sandbox in a library; start it by the program hermes, or set it to full`
            })
          ),
    startDirectory: Effect.sync(getWorkingDirectory),
    admit: () => Effect.void
  })
})

/** Describes a sandbox in a few words. Pure. */
export const describeProgramSandbox = (sandbox: ProgramSandbox): string =>
  typeof sandbox === "string"
    ? sandbox
    : [
        sandbox.policy,
        ...(sandbox.network === undefined ? [] : [`network ${sandbox.network}`]),
        ...(sandbox.hosts ?? [])
      ].join(", ")
