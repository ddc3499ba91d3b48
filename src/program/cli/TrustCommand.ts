/**
 * `hermes trust`: manages the folders whose files (agent files, skills, plugins, middleware) may take effect.
 *
 * Source: `ARCHITECTURE.md` §7.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { Home } from "../../base/config/Environment.ts"
import { FolderTrust, layer as trustLayer, type TrustedFolder } from "../../base/config/FolderTrust.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import { makeUnknownNameFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { printLine, renderTable } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const json = Flags.makeSwitch("json", "Print JSON")

const folder = Argument.String("folder").pipe(
  Argument.withDescription("Folder; default: the current directory"),
  Argument.withDefault("")
)

const trustStore = Layer.provide(trustLayer, Home.layer)

/** Returns the absolute path of the named folder. */
const resolveFolder = (folder: string) => Effect.map(Path.Path, (paths) => paths.resolve(getWorkingDirectory(), folder))

const toRow = ({ owner, path, trusted_at }: TrustedFolder): ReadonlyArray<string> =>
  [path, owner === null ? "" : `owner ${owner}`, trusted_at.slice(0, 10)].map(SafeText.toLine)

const listFolders = Effect.fn("hermes trust list")(function* ({ json }: { readonly json: boolean }) {
  const trusted = yield* FolderTrust.use(({ list }) => list)
  if (json) return yield* printLine(SafeText.toJson(trusted, 2))
  yield* printLine(
    trusted.length === 0 ? "No trusted folders. Trust one with `hermes trust add`." : renderTable(trusted.map(toRow))
  )
}, Effect.provide(trustStore))

const list = Command.make("list", { json }, listFolders).pipe(Command.withDescription("List trusted folders"))

const add = Command.make(
  "add",
  { folder },
  Effect.fn("hermes trust add")(function* ({ folder }) {
    const { path } = yield* FolderTrust.use(({ trust }) => Effect.flatMap(resolveFolder(folder), trust))
    yield* printLine(`trusted ${SafeText.toLine(path)}`)
  }, Effect.provide(trustStore))
).pipe(Command.withDescription("Trust the agent files, skills, plugins and middleware of a folder"))

const remove = Command.make(
  "remove",
  { folder },
  Effect.fn("hermes trust remove")(function* ({ folder }) {
    const trust = yield* FolderTrust
    const path = yield* resolveFolder(folder)
    if (yield* trust.forget(path)) return yield* printLine(`no longer trusted: ${SafeText.toLine(path)}`)
    return yield* makeUnknownNameFailure("trusted folder", SafeText.toLine(path), {
      known: (yield* trust.list).map((one) => one.path),
      list: "hermes trust list"
    })
  }, Effect.provide(trustStore))
).pipe(Command.withDescription("Forget a trusted folder"))

/** Without a subcommand, lists the folders. */
export const command = Command.make("trust", { json }, listFolders).pipe(Command.withSubcommands([list, add, remove]))
