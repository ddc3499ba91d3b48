// Logins at an MCP server, by the program and over HTTP.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { machine } from "../../support/hermes.ts"
import { oauthServer, oauthServerApart } from "./support/oauthServer.ts"

const pageIn = (stderr: string): string | undefined => /^\s+(http:\/\/\S+\/authorize\S+)$/m.exec(stderr)?.[1]

/** A login in which the user agrees, as soon as the page is shown. */
const login = Effect.fnUntraced(function* (
  { hermes }: Effect.Success<typeof machine>,
  agree: (page: string) => Promise<unknown>
) {
  let agreed = false
  return yield* hermes(["mcp", "login", "guarded"], {
    onError: (stderr) => {
      const page = pageIn(stderr)
      if (page === undefined || agreed) return
      agreed = true
      void agree(page)
    }
  })
})

describe("hermes mcp login", () => {
  it.live("gets tokens by a browser, which runs use and renew; logout forgets them", () =>
    Effect.gen(function* () {
      const server = yield* oauthServer
      const computer = yield* machine
      const { hermes, home, keep } = computer
      keep("config.yaml", `mcp_servers:\n  guarded: { url: "${server.url}", oauth: true }\n`)
      const before = yield* hermes(["mcp", "test", "guarded"])
      assert.strictEqual(before.code, 1)
      assert.match(before.stderr, /login required: run `hermes mcp login guarded`\n$/)

      const done = yield* login(computer, (page) => server.agree(page))
      assert.deepStrictEqual([done.code, done.stdout], [0, "Logged in to guarded\n"], done.stderr)
      const file = join(home, "mcp-tokens/logins.json")
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
      assert.include(readFileSync(file, "utf8"), "token-2")

      const works = yield* hermes(["mcp", "test", "guarded"])
      assert.match(works.stdout, /mcp__guarded__secret/, works.stderr)
      server.expire()
      const renewed = yield* hermes(["mcp", "test", "guarded"])
      assert.match(renewed.stdout, /mcp__guarded__secret/, renewed.stderr)
      assert.include(readFileSync(file, "utf8"), "token-3")

      assert.strictEqual((yield* hermes(["mcp", "logout", "guarded"])).stdout, "Logged out of guarded\n")
      assert.notInclude(readFileSync(file, "utf8"), "token-3")
      assert.strictEqual((yield* hermes(["mcp", "logout", "guarded"])).stdout, "Not logged in to guarded\n")
    })
  )

  it.live("is refused when somebody else comes back, or the user says no", () =>
    Effect.gen(function* () {
      const server = yield* oauthServer
      const computer = yield* machine
      computer.keep("config.yaml", `mcp_servers:\n  guarded: { url: "${server.url}", oauth: true }\n`)
      const forged = yield* login(computer, (page) =>
        server.agree(page, (back) => back.searchParams.set("state", "guessed"))
      )
      assert.strictEqual(forged.code, 1)
      assert.match(forged.stderr, /the login was completed for another request: try again\n$/)
      const both = yield* login(computer, (page) =>
        server.agree(page, ({ searchParams }) => {
          searchParams.set("state", "guessed")
          searchParams.set("error", "said by another")
        })
      )
      assert.match(both.stderr, /the login was completed for another request: try again\n$/)
      const denied = yield* login(computer, (page) =>
        server.agree(page, (back) => back.searchParams.set("error", "access_denied"))
      )
      assert.match(denied.stderr, /the login was refused \(access_denied\)\n$/)
      assert.notInclude(server.asked, "/token")
    })
  )

  it.live(
    "another host that a server names for its logins is not asked by a run, until the user logged in there or listed it",
    () =>
      Effect.gen(function* () {
        const server = yield* oauthServerApart
        const computer = yield* machine
        const { hermes, keep } = computer
        keep("config.yaml", `mcp_servers:\n  guarded: { url: "${server.url}", oauth: true }\n`)
        const before = yield* hermes(["mcp", "test", "guarded"])
        assert.deepStrictEqual([before.code, server.askedApart], [1, []])
        assert.include(
          before.stderr,
          `its login is at ${server.loginHost()}, a host that is not approved: run \`hermes mcp login guarded\``
        )

        const done = yield* login(computer, (page) => server.agree(page))
        assert.deepStrictEqual([done.code, done.stdout], [0, "Logged in to guarded\n"], done.stderr)
        server.expire()
        const renewed = yield* hermes(["mcp", "test", "guarded"])
        assert.match(renewed.stdout, /mcp__guarded__secret/, renewed.stderr)

        yield* hermes(["mcp", "logout", "guarded"])
        const asked = server.askedApart.length
        yield* hermes(["mcp", "test", "guarded"])
        assert.lengthOf(server.askedApart, asked)
        keep(
          "config.yaml",
          `permissions: { allow: ["web(${server.loginHost()})"] }\nmcp_servers:\n  guarded: { url: "${server.url}", oauth: true }\n`
        )
        yield* hermes(["mcp", "test", "guarded"])
        assert.isAbove(server.askedApart.length, asked)
      })
  )

  it.live("is for servers with an address alone, and one that is known", () =>
    Effect.gen(function* () {
      const { hermes, home, keep } = yield* machine
      keep("config.yaml", "mcp_servers:\n  here: { command: x }\n")
      const program = yield* hermes(["mcp", "login", "here"])
      assert.deepStrictEqual([program.code, program.stderr.split("\n").length], [2, 2])
      assert.include(program.stderr, "login requires a server with a url")
      assert.strictEqual((yield* hermes(["mcp", "login", "nobody"])).code, 2)
      assert.isFalse(existsSync(join(home, "mcp-tokens/logins.json")))
    })
  )
})
