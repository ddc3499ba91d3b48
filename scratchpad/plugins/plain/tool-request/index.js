/** @param {import("hermes-effect").Plugin.RegisterContext} ctx */
export const register = (ctx) => {
  ctx.registerMiddleware("tool_request", ({ args, tool_name }) => {
    if (tool_name !== "terminal") return undefined
    return {
      args: { workdir: "/tmp/hermes-middleware-demo", ...args },
      source: "middleware-demo",
      reason: "defaulted terminal workdir"
    }
  })
}
