// Keys are known by their shape wherever they stand, and values without a shape by the name of what they are given to.
// What only looks like one stays readable.
import { assert, describe, it } from "@effect/vitest"
import * as Redaction from "../../../src/base/domain/Redaction.ts"
import { foreignKeys } from "../../support/plantedKeys.ts"

type Frame = (key: string) => string

/** Places that a key of a known shape is found in. */
const places: Readonly<Record<string, Frame>> = {
  bare: (key) => key,
  "in a sentence": (key) => `the key (${key}) is new`,
  "a query": (key) => `https://api.example.com/v1?id=${key}&page=1`,
  "the end of a query": (key) => `https://api.example.com/v1?id=${key}`,
  "a path": (key) => `https://api.example.com/v1/${key}/send`,
  "a user": (key) => `https://${key}@example.com/a.git`,
  "a password": (key) => `https://user:${key}@example.com/a.git`,
  "a fragment": (key) => `https://example.com/back#${key}`,
  "a parameter of a fragment": (key) => `https://example.com/back#state=${key}&x=1`,
  "an escaped parameter": (key) => `https://example.com/?to=${encodeURIComponent(key)}`,
  "an address in a parameter": (key) =>
    `https://example.com/?to=${encodeURIComponent(`https://other.example/?id=${key}&n=1`)}`,
  JSON: (key) => JSON.stringify({ v: key }),
  "JSON in JSON": (key) => JSON.stringify(JSON.stringify({ v: key })),
  "a header": (key) => `X-Custom: ${key}\r\nAccept: */*`,
  "a shell": (key) => `export VALUE=${key}`,
  "a line of a diff": (key) => `+${key}`
}

/** True where more of a key can be read than the ends that a mask keeps. */
const isShown = (text: string, key: string): boolean => {
  const middle = key.slice(Math.floor(key.length / 2) - 5, Math.floor(key.length / 2) + 5)
  return text.includes(middle) || text.includes(encodeURIComponent(middle))
}

describe("SecretShapes", () => {
  for (const [place, frame] of Object.entries(places)) {
    it(`hides keys of ${foreignKeys.length} kinds in ${place}`, () => {
      const shown = (hide: (text: string) => string) =>
        foreignKeys.filter(([, key]) => isShown(hide(frame(key)), key)).map(([kind]) => kind)
      assert.deepStrictEqual(shown(Redaction.redactText), [])
      assert.deepStrictEqual(shown(Redaction.redactKeys), [])
    })
  }

  it("hides the token of a bot in the path of Telegram's API", () => {
    const [, key = ""] = foreignKeys.find(([kind]) => kind === "telegram") ?? []
    assert.isFalse(isShown(Redaction.redactText(`https://api.telegram.org/bot${key}/getMe`), key))
    assert.isFalse(isShown(Redaction.redactKeys(`https://api.telegram.org/bot${encodeURIComponent(key)}/getMe`), key))
  })

  it("hides what has no shape by the name of its parameter, header or variable", () => {
    const values = [
      "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
      "dGhpcyBpcyBhIHNlY3JldCB2YWx1ZSAx",
      "a7Gk29fLq0ZxPw81nBv4"
    ]
    const frames: ReadonlyArray<Frame> = [
      ...[
        "token",
        "access_token",
        "refresh_token",
        "id_token",
        "api_key",
        "apikey",
        "key",
        "sig",
        "signature",
        "secret",
        "client_secret",
        "password",
        "X-Amz-Signature",
        "X-Amz-Security-Token",
        "X-Goog-Signature",
        "code",
        "auth",
        "jwt",
        "assertion",
        "ticket",
        "otp",
        "subscription-key"
      ].flatMap((name): ReadonlyArray<Frame> => [
        (value) => `https://example.com/p?${name}=${value}`,
        (value) => `https://example.com/p?a=1&${name}=${value}&b=2`,
        (value) => `https://example.com/back#${name}=${value}`,
        (value) => `https://example.com/?to=${encodeURIComponent(`https://b.example/?a=1&${name}=${value}&n=2`)}`
      ]),
      (value) => `https://${value}@example.com/a.git`,
      (value) => `https://user:${value}@example.com/a.git`,
      (value) => `Authorization: SSWS ${value}`,
      (value) => `Authorization: Bot ${value}`,
      (value) => `Ocp-Apim-Subscription-Key: ${value}`,
      (value) => `X-Auth-Token: ${value}`,
      (value) => `export GITHUB_PAT=${value}`,
      (value) => `export DB_PASS=${value}`,
      (value) => `export SERVICE_JWT=${value}`
    ]
    const shown = frames.flatMap((frame) =>
      values.filter((value) => Redaction.redactText(frame(value)).includes(value.slice(6, 16))).map(frame)
    )
    assert.deepStrictEqual(shown, [])
  })

  it("leaves digests, identifiers and ordinary base64 readable", () => {
    const commit = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"
    const digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    const uuid = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"
    const kept = [
      commit,
      `commit ${commit}`,
      digest,
      uuid,
      `https://example.com/runs/${uuid}?attempt=1`,
      `https://example.com/?code=404&key=name`,
      `https://github.com/owner/repo/commit/${commit}`,
      `https://github.com/owner/repo/blob/${commit}/src/a.ts#L10-L20`,
      `https://example.com/?id=${uuid}&key=${uuid}`,
      `https://bucket.example.com/?key=path/to/file-2024-01-02.txt`,
      `ghcr.io/owner/image@sha256:${digest}`,
      `docker pull https://ghcr.io/owner/image@sha256:${digest}`,
      `"integrity": "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg=="`,
      "sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC",
      "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
      "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
      "https://unpkg.com/react-dom@18.2.0/umd/react-dom.production.min.js",
      "https://user@example.com/a.git",
      "https://deploy-bot.team-2.eu-west-1.prod@git.example.com/a",
      "git+ssh://git@github.com/owner/repo.git",
      "test_parsesTheWholeConfigurationFile",
      "live_reloadOfTheDevelopmentServer",
      "const key_of_the_second_entry_2 = 1",
      "pa-very-long-name-of-a-class-with-many-words-in-it-2",
      "BSA_CONFIGURATION_OF_THE_MODULE",
      "napi_create_external_arraybuffer_2",
      "cioXYZ",
      "https://example.com/a?code=US&auth=none",
      "m0-1",
      "fw_update_available",
      "render_rnd_value",
      "1//0 is NaN",
      "MyLongIdentifierOfSomething.method.call",
      "sl.component",
      "export PYTHONPATH=/usr/lib/python3.12/site-packages",
      "NODE_PATH=/usr/lib/node_modules2",
      "2024-01-02T10:11:12.123456Z",
      "01ARZ3NDEKTSV4RRFFQ69G5FAV",
      "https://example.com/search?q=how+to+read+a+key",
      "#code=block"
    ]
    for (const text of kept) {
      assert.strictEqual(Redaction.redactText(text), text)
      assert.strictEqual(Redaction.redactKeys(text), text)
    }
  })
})
