/**
 * Selects the agent file of a run. The file is found by its path or name. Its folder must be trusted by the user, and
 * its values override the settings.
 *
 * Named agent files are read from `agents/` in the home directory and `.hermes/agents/` in the working directory.
 *
 * Source: `nexau.md` §6, `ARCHITECTURE.md` §7.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as AgentFile from "../../base/config/AgentFile.ts"
import { Home } from "../../base/config/Environment.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import { surroundings } from "./CommandSettings.ts"
import { confirmAction } from "./Confirm.ts"
import { makeUnknownNameFailure } from "./Failure.ts"
import { Output } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const isYaml = (name: string): boolean => /\.ya?ml$/.test(name)

/** Name and path of an agent file. */
export interface AgentFilePlace {
  readonly name: string
  readonly path: string
  readonly source: "user" | "project"
}

/** Lists the named agent files, with the user's own files first. Only their names are read. */
export const namedAgentFiles = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const home = yield* Home
  const found: Array<AgentFilePlace> = []
  for (const [folder, source] of [
    [paths.join(home.root, "agents"), "user"],
    [paths.join(getWorkingDirectory(), FolderTrust.ownParts.agents), "project"]
  ] as const) {
    const names = yield* Effect.orElseSucceed(fs.readDirectory(folder), () => [])
    for (const file of names.filter(isYaml).toSorted()) {
      const name = file.replace(/\.ya?ml$/, "")
      if (!found.some((place) => place.name === name)) found.push({ name, path: paths.join(folder, file), source })
    }
  }
  return found
})

/** Resolves a reference to an agent file, which is a path or a name, to a path. */
export const resolveReference = Effect.fnUntraced(function* (reference: string) {
  const paths = yield* Path.Path
  if (isYaml(reference) || /[\\/]/.test(reference)) return paths.resolve(getWorkingDirectory(), reference)
  const known = yield* namedAgentFiles
  const named = known.find(({ name }) => name === reference)
  return (
    named?.path ??
    (yield* makeUnknownNameFailure("agent", SafeText.toLine(reference), {
      known: known.map(({ name }) => name),
      list: "hermes agents list"
    }))
  )
})

/** Layer with the home directory, the environment, and the service that decides which folders are trusted. */
export const layer = Layer.provideMerge(FolderTrust.layer, surroundings)

/** Asks once whether the folder of a file is trusted, if the user can answer. */
const promptForTrust = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const trust = yield* FolderTrust.FolderTrust
  const folder = paths.dirname(yield* Effect.orElseSucceed(fs.realPath(path), () => path))
  if (!(yield* Effect.orElseSucceed(fs.exists(path), () => false)) || (yield* trust.isTrusted(folder))) return
  const project = yield* trust.findOwnProject(folder)
  const question =
    `${SafeText.toLine(path)} can name programs, tools and addresses. Trust the files of ` +
    `${SafeText.toLine(project)}?`
  if (yield* confirmAction(question)) yield* trust.trust(project)
})

/** Reads the agent file selected by `--agent`. `attended` is true if the user can be asked to trust its folder. */
export const choose = Effect.fnUntraced(function* (reference: string, attended: boolean) {
  const { terminal } = yield* Output
  const path = yield* resolveReference(reference)
  if (attended && terminal.input) yield* promptForTrust(path)
  return yield* AgentFile.load(path)
}, Effect.provide(layer))
