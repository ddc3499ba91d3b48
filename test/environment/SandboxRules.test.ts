// The text of a profile for macOS; no test runs it.
import { assert, describe, it } from "@effect/vitest"
import { ordered, seatbelt } from "../../src/environment/SandboxRules.ts"

describe("a profile of Seatbelt", () => {
  it("says the rules in their order, the stricter of one path last", () => {
    const rules = ordered([
      { path: "/Users/ada/.ssh", allows: "nothing" },
      { path: "/Users/ada/project", allows: "write" },
      { path: "/Users/ada/project/.env", allows: "nothing", isFile: true },
      { path: "/Users/ada/project/.git/hooks", allows: "read" },
      { path: "/Users/ada/project/.git/commondir", allows: "read", isAbsent: true },
      { path: "/private/tmp", allows: "write", source: "/private/var/folders/a b/\"x\"" }
    ])
    assert.strictEqual(seatbelt(rules, "none"), [
      "(version 1)",
      "(deny default)",
      "(allow process-exec process-fork)",
      "(allow signal (target same-sandbox))",
      "(allow sysctl-read)",
      "(allow file-read*)",
      "(allow file-write* (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/tty\"))",
      "(allow file-read* file-write* (subpath \"/private/var/folders/a b/\\\"x\\\"\"))",
      "(allow file-read* file-write* (subpath \"/Users/ada/project\"))",
      "(deny file-read* file-write* (subpath \"/Users/ada/.ssh\"))",
      "(allow file-read* file-write* (subpath \"/Users/ada/project/.git\"))",
      "(deny file-read* file-write* (literal \"/Users/ada/project/.env\"))",
      "(allow file-read* (subpath \"/Users/ada/project/.git/hooks\"))",
      "(deny file-write* (subpath \"/Users/ada/project/.git/hooks\"))",
      "(allow file-read* (literal \"/Users/ada/project/.git/commondir\"))",
      "(deny file-write* (literal \"/Users/ada/project/.git/commondir\"))",
      ""
    ].join("\n"))
  })

  it("lets the network be none, all, or a proxy", () => {
    assert.notInclude(seatbelt([], "none"), "network")
    assert.include(seatbelt([], "all"), "\n(allow network*)\n")
    assert.include(seatbelt([], { proxyPort: 3128 }), "\n(allow network-outbound (remote ip \"localhost:3128\"))\n")
  })
})
