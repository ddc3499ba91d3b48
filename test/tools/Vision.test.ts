import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Prompt from "effect/ai/Prompt"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as CommandEnvironment from "../../src/places/CommandEnvironment.ts"
import * as PathRoots from "../../src/tools/builtin/file/PathRoots.ts"
import { SideModel } from "../../src/tools/builtin/SideModel.ts"
import * as Vision from "../../src/tools/builtin/Vision.ts"
import * as Urls from "../../src/tools/fence/Urls.ts"
import { callTool } from "../support/callTool.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"
import { webServer } from "../support/webServer.ts"

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

/** The files of a machine whose user lives in `home`. */
const machine = (home: string) =>
  Layer.mergeAll(PathRoots.layer({ home }), CommandEnvironment.layerLocal).pipe(Layer.provideMerge(NodeServices.layer))

const look = (params: unknown, cwd = "/") =>
  callTool(Vision.toolset, "vision_analyze", params, { cwd }).pipe(Effect.provide(machine(cwd)))

describe("vision_analyze", () => {
  it.effect("shows a file or a data URL to the side model, as what its bytes are", () =>
    Effect.gen(function* () {
      const dir = yield* temporaryDirectory
      writeFileSync(join(dir, "picture.txt"), Buffer.from(png, "base64"))
      const asked: Array<Prompt.Message> = []
      const seeing = Effect.provideService(SideModel, (_task, messages) =>
        Effect.sync(() => {
          asked.push(...messages)
          return "a dot"
        })
      )
      for (const image_url of ["picture.txt", `data:image/jpeg;base64,${png}`]) {
        const { body } = yield* look({ image_url, question: "What is it?" }, dir).pipe(seeing)
        assert.deepStrictEqual(body, { success: true, analysis: "a dot" })
      }
      const types = asked.flatMap((message) =>
        message.role === "user" ? message.content.flatMap((part) => (part.type === "file" ? [part.mediaType] : [])) : []
      )
      assert.deepStrictEqual(types, ["image/png", "image/png"])
    })
  )

  it.effect("keeps to the fences of files and addresses, links and redirects followed", () =>
    Effect.gen(function* () {
      const dir = yield* temporaryDirectory
      mkdirSync(join(dir, ".ssh"))
      writeFileSync(join(dir, ".ssh", "picture.png"), Buffer.from(png, "base64"))
      symlinkSync(join(dir, ".ssh"), join(dir, "pictures"))
      const url = yield* webServer(({ url }, response) => {
        if (url === "/moved") response.writeHead(302, { location: "/here" }).end()
        else if (url === "/inside") response.writeHead(302, { location: "http://169.254.169.254/x.png" }).end()
        else response.end(Buffer.from(png, "base64"))
      })
      const seeing = Effect.provideService(SideModel, () => Effect.succeed("a dot"))
      const allowed = Effect.provideService(Urls.UrlPolicy, { ...Urls.strict, allowPrivate: true })
      for (const image_url of [
        ".ssh/picture.png",
        "pictures/picture.png",
        "x/../~/.ssh/picture.png",
        "~/.ssh/picture.png",
        `${url}/inside`
      ]) {
        assert.isTrue((yield* look({ image_url }, dir).pipe(seeing, allowed)).isFailure, image_url)
      }
      assert.isTrue((yield* look({ image_url: `${url}/moved` }, dir).pipe(seeing)).isFailure)
      assert.isFalse((yield* look({ image_url: `${url}/moved` }, dir).pipe(seeing, allowed)).isFailure)
    })
  )

  it.effect("says what is wrong", () =>
    Effect.gen(function* () {
      const seeing = Effect.provideService(SideModel, () => Effect.succeed("never"))
      for (const image_url of [
        "nothing.png",
        "/",
        "/etc/passwd",
        "data:image/png;base64,%%%",
        "http://127.0.0.1/x.png",
        "ftp://x/y"
      ]) {
        assert.isTrue((yield* look({ image_url }).pipe(seeing)).isFailure, image_url)
      }
      assert.isEmpty(
        yield* Effect.scoped(Vision.toolset.bind.pipe(Effect.provide(machine("/")))),
        "without a side model"
      )
    })
  )
})
