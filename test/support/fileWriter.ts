// A process that changes one file of a home directory once, beside others that do the same. One that looks slowly who
// has the lock, or reads slowly while it has it, gives the others time to come between.
// Arguments: "config" or "consent", home directory, entry to add, milliseconds of a look at the lock, milliseconds of a
// read.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Digest from "effect/crypto/Digest"
import * as Edit from "../../src/base/config/Edit.ts"
import { Home } from "../../src/base/config/Environment.ts"
import * as Consent from "../../src/hooks/ShellHookConsent.ts"
import { slowLeases } from "./slowLeases.ts"

const [kind, home = "", entry = "", look = "0", read = "0"] = process.argv.slice(2)
slowLeases(Number(look))

const slowly = FileSystem.FileSystem.use((fs) =>
  Effect.succeed(
    FileSystem.FileSystem.of({
      ...fs,
      readFileString: (path, encoding) => Effect.tap(fs.readFileString(path, encoding), Effect.sleep(Number(read)))
    })
  )
)

const config = Edit.modify(["command_allowlist"], (list) => [...(Array.isArray(list) ? list : []), entry])

const consent = Effect.flatMap(Consent.make(home, { cwd: home, environment: {} }), ({ approve }) =>
  approve({ event: "on_session_end", command: entry, timeoutSeconds: 1, matcher: undefined, sandbox: "full" })
)

await Effect.runPromise(
  Effect.provide(
    Effect.asVoid<unknown, unknown, FileSystem.FileSystem | Home | NodeServices.NodeServices | Digest.Digest>(
      kind === "config" ? config : consent
    ),
    Layer.mergeAll(Home.layerAt(home), Digest.layerWebCrypto).pipe(
      Layer.provideMerge(Layer.effect(FileSystem.FileSystem, slowly)),
      Layer.provideMerge(NodeServices.layer)
    )
  )
)
