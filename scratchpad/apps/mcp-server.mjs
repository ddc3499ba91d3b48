// A small MCP server, for the application mcp-client and its twins.
import { McpServer } from "@modelcontextprotocol/server"
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio"
import * as z from "zod"

const server = new McpServer({ name: "shop", version: "1.0.0" })
server.registerTool(
  "price",
  { description: "Price of an item", inputSchema: z.object({ item: z.string() }) },
  ({ item }) => ({ content: [{ type: "text", text: `${item} costs 3 crowns` }] })
)
await server.connect(new StdioServerTransport())
