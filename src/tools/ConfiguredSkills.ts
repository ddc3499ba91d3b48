/**
 * The skills selected by a user's settings: from the home directory, from `skills.external_dirs`, and from the project
 * that the program was started in, once its folder is trusted (`.hermes/skills` and `.agents/skills` of the working
 * directory and of its repository).
 */
import * as Effect from "effect/Effect"
import * as Path from "effect/Path"
import { type Environment, Home } from "../base/config/Environment.ts"
import * as FolderTrust from "../base/config/FolderTrust.ts"
import type { Values } from "../base/config/Settings.ts"
import { operatingSystem, StartDirectory } from "../base/platform/CurrentProcess.ts"
import * as SkillStore from "./prompt/SkillStore.ts"
import { expandHome } from "./builtin/file/PathRoots.ts"
import * as Toolsets from "./Toolsets.ts"

/** Makes the skills of a user. */
export const make = Effect.fnUntraced(function* (
  { skills: { disabled, externalDirs, templateVars } }: Values,
  { environment, home }: { readonly environment: Environment["Service"]; readonly home: Home["Service"] }
) {
  const paths = yield* Path.Path
  const user = environment.get("HOME") ?? environment.get("USERPROFILE")
  const trust = yield* FolderTrust.make.pipe(Effect.provideService(Home, home))
  const cwd = (yield* StartDirectory)()
  const projectDirectories = Effect.gen(function* () {
    const project = yield* trust.findOwnProject(cwd)
    const folders = Array.from(new Set([cwd, project]))
    const isTrusted = yield* Effect.forEach(folders, trust.isTrusted)
    return folders.flatMap((folder, at) =>
      FolderTrust.ownParts.skills.map((name) => {
        const directory = paths.join(folder, name)
        return isTrusted[at] === true
          ? { directory }
          : { directory, refusal: FolderTrust.makeUntrustedError(directory, project).message }
      })
    )
  })
  return yield* SkillStore.make({
    directory: home.skills,
    database: home.database,
    snapshot: paths.join(home.root, "cache", "skills.json"),
    // A relative directory is resolved against the home directory of the program, because programs can start in any
    // directory.
    externalDirectories: externalDirs.map((path) => paths.resolve(home.root, expandHome(path, user))),
    projectDirectories,
    os: operatingSystem,
    disabled,
    templateVars,
    getToolsets: Toolsets.findByTools,
    variable: environment.get
  })
})
