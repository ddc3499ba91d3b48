/** Place of a rollout: the tools of its group, the tools for its reward, its directory, and the id of its group. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type * as Scope from "effect/Scope"
import type { Agent } from "../../agent/Agent.ts"
import * as Json from "../../base/domain/Json.ts"
import { InteractiveMode, makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import { type Selection, ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import { EnvironmentError, type RolloutTools } from "./RolloutEnvironment.ts"

/** Resolves the tools of a group once, so that all members have the same tools. */
export const resolveTools = Effect.fnUntraced(function* (
  wanted: ReadonlyArray<string>
): Effect.fn.Return<
  { readonly names: ReadonlyArray<string>; readonly selection: Selection },
  EnvironmentError,
  ToolRegistry
> {
  const registry = yield* ToolRegistry
  const foreign = (yield* registry.list)
    .map(({ toolset }) => toolset)
    .filter((name) => !Object.hasOwn(Toolsets.catalogue, name))
  const { selection, unknown } = Toolsets.resolve({
    toolsets: wanted,
    disabled: ["clarify", "delegation", "cronjob", "memory"],
    foreign
  })
  const [first] = unknown
  if (first !== undefined)
    return yield* new EnvironmentError({ message: `There is no toolset "${first.name}": \`hermes tools\` lists them.` })
  const { names } = yield* registry.snapshot(wanted.length === 0 ? { tool: () => false } : selection)
  const known = new Set(names)
  return { names, selection: { tool: (name) => known.has(name) } }
})

/** Makes the tools that work in the directory of a rollout. */
export const makeRolloutTools = (agent: Agent["Service"], rolloutId: string, directory: string): RolloutTools => {
  const callTool: RolloutTools["call"] = (name, args) =>
    agent.callTool({ name, args, sessionId: rolloutId, cwd: directory }).pipe(
      // The calls come from the environment's own code. The user approved this code by selecting the environment. The
      // minimum safety rules still apply.
      Effect.provideService(InteractiveMode, makeUnattended("reward", "approve")),
      Effect.map(({ isFailure, output }) => ({
        isFailure,
        output: typeof output === "string" ? Json.parseOrKeep(output) : output
      }))
    )
  return {
    rolloutId,
    directory,
    call: callTool,
    terminal: (command, { timeoutSeconds } = {}) =>
      Effect.map(
        callTool("terminal", { command, ...(timeoutSeconds === undefined ? {} : { timeout: timeoutSeconds }) }),
        ({ output }) => {
          const { error, exit_code: code, output: text } = Json.readFields(output)
          return {
            output: Json.readWord(text),
            exitCode: typeof code === "number" ? code : -1,
            error: Json.readString(error)
          }
        }
      ),
    readFile: (path) => callTool("read_file", { path }),
    writeFile: (path, content) => callTool("write_file", { path, content })
  }
}

/** Makes a directory for one rollout, which is removed when the scope closes. */
export const makeRolloutDirectory = Effect.fnUntraced(function* (
  base: string | undefined,
  id: string
): Effect.fn.Return<string, EnvironmentError, FileSystem.FileSystem | Path.Path | Scope.Scope> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  if (base !== undefined) yield* Effect.ignore(fs.makeDirectory(base, { recursive: true, mode: 0o700 }))
  const made = yield* Effect.mapError(
    fs.makeTempDirectoryScoped({ ...(base === undefined ? {} : { directory: base }), prefix: `${id}-` }),
    ({ message }) => new EnvironmentError({ message: `There is no place for a rollout: ${message}` })
  )
  return paths.resolve(made)
})

/** Makes a group id from the name of an item. The id is a valid file name on every system. */
export const makeGroupId = (name: string, unique: string): string =>
  `${
    name
      .replaceAll(/[^A-Za-z0-9._-]/gu, "_")
      .replace(/^[^A-Za-z0-9]+/u, "")
      .slice(0, 90) || "group"
  }-${unique}`
