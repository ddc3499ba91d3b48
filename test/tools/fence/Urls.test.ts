// What may be reached on behalf of a model, and what not: a corpus, rebinding, redirects, opt-outs.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { createServer } from "node:http"
import * as Urls from "../../../src/tools/fence/Urls.ts"
import * as Fetch from "../../../src/tools/fence/Fetch.ts"
import { allowed, answers, hostile } from "./urls.ts"
import { prop } from "../../support/property.ts"

const resolver = {
  resolve: (host: string) =>
    host === "unresolvable.example" || host === "etc"
      ? Effect.fail("NXDOMAIN")
      : Effect.succeed(Object.hasOwn(answers, host) ? (answers[host] ?? []) : ["93.184.216.34"])
}

const verdict = (url: string, policy: Urls.Policy = Urls.strict) =>
  Effect.match(Urls.make(resolver, policy).admit(url), {
    onFailure: ({ reason }) => reason,
    onSuccess: () => "admitted"
  })

describe("Urls", () => {
  it.effect("refuses every hostile URL", () =>
    Effect.gen(function* () {
      assert.isAtLeast(hostile.length, 80)
      for (const [url, reason] of hostile) assert.notStrictEqual(yield* verdict(url), "admitted", `${url}: ${reason}`)
    })
  )

  it.effect("admits what is public", () =>
    Effect.gen(function* () {
      for (const url of allowed) assert.strictEqual(yield* verdict(url), "admitted", url)
    })
  )

  it.effect("allows private addresses when it is told to, and metadata never", () =>
    Effect.gen(function* () {
      const lax = { ...Urls.strict, allowPrivate: true }
      for (const url of [
        "http://10.0.0.5/",
        "http://localhost:3000/",
        "http://[::1]/",
        "http://internal.example/",
        "http://198.18.0.1/"
      ]) {
        assert.strictEqual(yield* verdict(url, lax), "admitted", url)
      }
      for (const url of [
        "http://169.254.169.254/",
        "http://[::ffff:169.254.169.254]/",
        "http://metadata.google.internal./",
        "http://meta.example/",
        "http://2852039166/",
        "http://100.100.100.200/",
        "http://[fd00:ec2::254]/",
        "file:///etc/passwd"
      ])
        assert.notStrictEqual(yield* verdict(url, lax), "admitted", url)
    })
  )

  it("classifies the first and the last address of each special range, and not their neighbours", () => {
    const ranges: ReadonlyArray<readonly [before: string, first: string, last: string, after: string, kind: string]> = [
      ["", "0.0.0.0", "0.255.255.255", "1.0.0.0", "private"],
      ["9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0", "private"],
      ["100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0", "private"],
      ["126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0", "private"],
      ["168.63.129.15", "168.63.129.16", "168.63.129.16", "168.63.129.17", "metadata"],
      ["169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0", "metadata"],
      ["172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0", "private"],
      ["191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0", "private"],
      ["192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0", "private"],
      ["192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0", "private"],
      ["192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0", "private"],
      ["198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0", "benchmark"],
      ["198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0", "private"],
      ["203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0", "private"],
      ["223.255.255.255", "224.0.0.0", "255.255.255.255", "", "private"]
    ]
    for (const [before, first, last, after, kind] of ranges) {
      for (const prefix of ["", "::ffff:"]) {
        for (const inside of [first, last]) assert.strictEqual(Urls.classifyAddress(prefix + inside), kind, inside)
        for (const near of [before, after].filter((one) => one !== ""))
          assert.strictEqual(Urls.classifyAddress(prefix + near), "public", near)
      }
    }
    for (const metadata of ["100.100.100.200", "192.0.0.192"])
      assert.strictEqual(Urls.classifyAddress(metadata), "metadata", metadata)
    for (const near of ["100.100.100.199", "100.100.100.201", "192.0.0.191", "192.0.0.193"])
      assert.strictEqual(Urls.classifyAddress(near), "private", near)
  })

  it.effect("lets one trusted host over https into the range for benchmarks", () =>
    Effect.gen(function* () {
      const trusting = { ...Urls.strict, benchmarkHosts: ["media.example"] }
      const media = Urls.make({ resolve: () => Effect.succeed(["198.18.0.7"]) }, trusting)
      assert.strictEqual((yield* media.admit("https://media.example/")).addresses[0], "198.18.0.7")
      assert.isTrue((yield* Effect.result(media.admit("http://media.example/")))._tag === "Failure")
      assert.isTrue((yield* Effect.result(media.admit("https://other.example/")))._tag === "Failure")
    })
  )

  it.effect("asks a name once, and pins what it said", () =>
    Effect.gen(function* () {
      let asked = 0
      const rebinding = Urls.make({ resolve: () => Effect.sync(() => [asked++ === 0 ? "93.184.216.34" : "127.0.0.1"]) })
      const admitted = yield* rebinding.admit("http://rebinding.example/")
      assert.deepStrictEqual([admitted.addresses, asked], [["93.184.216.34"], 1])
      // The next hop asks again, and is refused.
      assert.strictEqual((yield* Effect.result(rebinding.follow(admitted, "/next")))._tag, "Failure")
    })
  )

  it.effect("judges every redirect against where it comes from", () =>
    Effect.gen(function* () {
      const urls = Urls.make(resolver)
      const from = yield* urls.admit("https://example.com/a/b")
      assert.strictEqual((yield* urls.follow(from, "../c")).url.href, "https://example.com/c")
      for (const location of [
        "http://127.0.0.1/",
        "//localhost/",
        "file:///etc/passwd",
        "http://meta.example/",
        "http://["
      ]) {
        assert.strictEqual((yield* Effect.result(urls.follow(from, location)))._tag, "Failure", location)
      }
    })
  )

  prop(
    "never throws, whatever the text",
    [Schema.String, Schema.Array(Schema.Literals([".", ":", "::", "[", "]", "0x", "ff", "1", "@", "%", "http://"]))],
    ([noise, parts]) => {
      Urls.classifyAddress(noise)
      Urls.classifyAddress(parts.join(""))
      Urls.read(noise, Urls.strict)
      Urls.read(parts.join(""), Urls.strict)
    }
  )
})

const server = Effect.acquireRelease(
  Effect.promise(
    () =>
      new Promise<{ readonly port: number; readonly close: () => void; readonly seen: Array<string> }>((resolve) => {
        const seen: Array<string> = []
        const http = createServer((request, response) => {
          seen.push(`${request.headers.host} ${request.url} ${request.headers.authorization ?? ""}`)
          if (request.url === "/evil") response.writeHead(302, { location: "http://169.254.169.254/" }).end()
          else if (request.url === "/loop") response.writeHead(302, { location: "/loop" }).end()
          else if (request.url === "/away") response.writeHead(302, { location: "/body" }).end()
          else response.end("x".repeat(1_000))
        })
        http.listen(0, "127.0.0.1", () => {
          const address = http.address()
          resolve({
            port: typeof address === "object" && address !== null ? address.port : 0,
            close: () => {
              http.closeAllConnections()
              http.close()
            },
            seen
          })
        })
      })
  ),
  ({ close }) => Effect.sync(close)
)

describe("Fetch", () => {
  const local = Layer.mergeAll(
    Layer.succeed(Urls.Resolver, { resolve: () => Effect.succeed(["127.0.0.1"]) }),
    Layer.succeed(Urls.UrlPolicy, { ...Urls.strict, allowPrivate: true })
  )

  it.effect(
    "connects to the admitted address whatever the name, keeps a bounded body, and follows what is allowed",
    () =>
      Effect.gen(function* () {
        const { port, seen } = yield* server
        const options = { headers: { authorization: "Bearer x" }, maxBytes: 100 }
        const fetched = yield* Fetch.fetch(`http://nowhere.invalid:${port}/away`, options)
        assert.deepStrictEqual([fetched.status, fetched.body.length, fetched.truncated], [200, 100, true])
        assert.strictEqual(fetched.url.href, `http://nowhere.invalid:${port}/body`)
        assert.deepStrictEqual(seen, [
          `nowhere.invalid:${port} /away Bearer x`,
          `nowhere.invalid:${port} /body Bearer x`
        ])
      }).pipe(Effect.scoped, Effect.provide(local))
  )

  it.effect("stops at a redirect that leads inside, and at one that never ends", () =>
    Effect.gen(function* () {
      const { port } = yield* server
      const options = { headers: {}, maxBytes: 100 }
      const evil = yield* Effect.flip(Fetch.fetch(`http://nowhere.invalid:${port}/evil`, options))
      assert.include(evil.message, "metadata")
      const loop = yield* Effect.flip(Fetch.fetch(`http://nowhere.invalid:${port}/loop`, options))
      assert.include(loop.message, "redirects more than")
    }).pipe(Effect.scoped, Effect.provide(local))
  )
})
