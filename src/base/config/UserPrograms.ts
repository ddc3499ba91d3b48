/**
 * Programs that the user named in the settings and that run alongside the commands of a model: MCP servers, shell
 * hooks. They run on this machine regardless of the environment of commands, as far as their setting `sandbox` permits.
 *
 * **Details**
 *
 * `full`, the default, is the user's own rights. `workspace-write` and `read-only` run the program in a `Sandbox`, with
 * the files of `terminal.sandbox` and a separate network. If the sandbox cannot be set up, this is an error, and the
 * program does not run.
 *
 * Files of an untrusted working directory are never run: a command line with a relative path (`./server`) is refused,
 * and a program without a configured directory starts in an empty one, so that `npx` and similar tools find no packages
 * or settings of the project.
 *
 * **Gotchas**
 *
 * A library has no settings and therefore no sandbox: it runs `full` and refuses everything else.
 *
 * Source: `ARCHITECTURE.md` §7.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type { ProgramSandbox } from "./SettingSections.ts"
import { getWorkingDirectory } from "../platform/CurrentProcess.ts"
import { ConfigError } from "../domain/AgentError.ts"

/** Starts programs of the user. */
export interface Service {
  /**
   * Starts processes as far as a sandbox lets them, while the scope is open; `setting` names the sandbox in errors. A
   * process may write where its `CallDirectory` lies.
   */
  readonly getSpawner: (
    setting: string,
    sandbox: ProgramSandbox
  ) => Effect.Effect<ChildProcessSpawner["Service"], ConfigError, ChildProcessSpawner | Scope.Scope>
  /** Directory in which a program starts if it does not define one. It exists while the scope is open. */
  readonly startDirectory: Effect.Effect<string, ConfigError, Scope.Scope>
  /**
   * Fails where the words of a command line, read in the working directory, name a file there that is not trusted;
   * `setting` has it.
   */
  readonly admit: (setting: string, words: ReadonlyArray<string>) => Effect.Effect<void, ConfigError>
}

const interpreter = /(?:^|\/)(?:(?:ba|da|k|z)?sh|python[\d.]*|node|ruby|perl|php)$/

/**
 * True for a word that names a file by its place in the working directory, as the script of an interpreter does. Pure.
 */
export const isRelative = (word: string, position: number, line: ReadonlyArray<string>): boolean =>
  /^\.{1,2}(?:\/|$)/.test(word) ||
  (position === 0 && /^[^/].*\//.test(word)) ||
  (position === 1 && /^[^/-]/.test(word) && interpreter.test(line[0] ?? ""))

/** Starts programs of the user; without walls unless the program that runs has settings. */
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

/** A sandbox in one word or two. Pure. */
export const describeProgramSandbox = (sandbox: ProgramSandbox): string =>
  typeof sandbox === "string"
    ? sandbox
    : [
        sandbox.policy,
        ...(sandbox.network === undefined ? [] : [`network ${sandbox.network}`]),
        ...(sandbox.hosts ?? [])
      ].join(", ")
