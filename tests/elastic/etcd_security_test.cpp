// SPDX-License-Identifier: Apache-2.0
// test: libs=elastic timeout=90 seconds=6
#include "plait/elastic/etcd_security.hpp"

#include "elastic/own_etcd.hpp"
#include "plait/elastic/etcd.hpp"
#include "plait/elastic/etcd_access.hpp"
#include "plait/elastic/etcd_watch.hpp"

#include <curl/curl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using plait::etcd_security;
using plait::detail::etcd;
using plait::detail::etcd_access;
using plait::detail::etcd_error;
using plait::detail::etcd_http;
using plait::detail::etcd_refusal;
using plait::detail::etcd_watch;
using plait_test::own_etcd;
namespace fs = std::filesystem;

constexpr std::string_view secret = "correct horse";

void write(fs::path const& path, std::string_view text, ::mode_t mode = 0600) {
  std::ofstream(path) << text;
  ::chmod(path.c_str(), mode);
}

/// Returns the error that `call` throws.
template <class Error = etcd_refusal, class Call>
std::string refusal(Call&& call) {
  try {
    call();
    return "";
  } catch (Error const& problem) {
    std::cout << problem.what() << "\n";
    return problem.what();
  }
}
void expect_words(std::string const& text, std::string const& words) {
  EXPECT_NE(text.find(words), std::string::npos) << "'" << words << "' is not in: " << text;
  EXPECT_EQ(text.find(secret), std::string::npos) << text;
}

/// Certificates, made with openssl as their owners would make them.
class certificates {
 public:
  explicit certificates(fs::path folder) : folder_(std::move(folder)) {
    make_ca("ca");
    make_ca("other");
    make("server", "ca", "IP:127.0.0.1", 2, "/CN=root");
    make("client", "ca", "DNS:job", 2, "/O=job");
    make("named", "ca", "DNS:job", 2);
    make("of_other", "other", "IP:127.0.0.1", 2);
    make("wrong_name", "ca", "DNS:etcd.test", 2);
    make("expired", "ca", "IP:127.0.0.1", -1);
  }
  [[nodiscard]] fs::path pem(std::string const& name) const { return folder_ / (name + ".pem"); }
  [[nodiscard]] fs::path key(std::string const& name) const { return folder_ / (name + ".key"); }
  /// etcd reads its files again for each connection.
  void show(std::string const& name) const {
    fs::copy_file(key(name), folder_ / "shown.key", fs::copy_options::overwrite_existing);
    fs::copy_file(pem(name), folder_ / "shown.pem", fs::copy_options::overwrite_existing);
  }

 private:
  void make_ca(std::string const& name) const {
    openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=" +
            name + " -keyout " + name + ".key -out " + name + ".pem");
  }
  void make(std::string const& name, std::string const& ca, std::string const& names, int days,
            std::string const& subject = "/CN=any") const {
    openssl("req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj " + subject +
            " -keyout " + name + ".key -out " + name + ".csr");
    write(folder_ / "names",
          "subjectAltName=" + names + "\nextendedKeyUsage=serverAuth,clientAuth\n");
    openssl("x509 -req -in " + name + ".csr -CA " + ca + ".pem -CAkey " + ca +
            ".key -CAcreateserial -extfile names -days " + std::to_string(days) + " -out " + name +
            ".pem");
  }
  void openssl(std::string const& words) const {
    auto const line = "cd '" + folder_.native() + "' && openssl " + words + " >log 2>&1";
    if (std::system(line.c_str()) != 0) throw std::runtime_error("openssl " + words);
  }

  fs::path folder_;
};

/// An etcd that requires TLS with certificates on both sides, and a user.
class EtcdSecurity : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (auto const* const program : {"etcd", "openssl"})
      if (plait_test::path_of_program(program).empty()) {
        missing_ = program;
        return;
      }
    std::string name = fs::temp_directory_path() / "plait-security-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    folder_ = name;
    made_ = std::make_unique<certificates>(folder_);
    made_->show("server");
    write(folder_ / "password", std::string(secret) + "\n");
    write(folder_ / "wrong", "correct donkey\n");
    // A token is valid for a second or two.
    server_ = std::make_unique<own_etcd>(
        "etcds", std::vector<std::string>{"--cert-file", folder_ / "shown.pem", "--key-file",
                                          folder_ / "shown.key", "--trusted-ca-file",
                                          made_->pem("ca"), "--client-cert-auth",
                                          "--auth-token-ttl", "1", "--bcrypt-cost", "4"});
    auto nobody = files();
    nobody.user.clear();
    nobody.password_file.clear();
    auto const open = std::make_shared<etcd_access>(server_->at(), nobody);
    server_->start(open);
    expect_no_user_is_no_secret();
    etcd_http http(open);
    auto const call = [&](std::string const& what, std::string const& body) {
      http.begin(open->servers()[0], "auth/" + what, body, {.connect = 20s, .total = 20s});
      if (auto const problem = http.end(); !problem.empty() || http.status() != 200)
        throw std::runtime_error(what + ": " + problem + " " + http.text());
    };
    for (std::string const user : {"root", "job", "poor"}) {
      call("user/add", R"({"name":")" + user + R"(","password":")" + std::string(secret) + "\"}");
      if (user != "root") call("role/add", R"({"name":")" + user + "\"}");
      call("user/grant", R"({"user":")" + user + R"(","role":")" + user + "\"}");
    }
    using plait::detail::to_base64;
    call("role/grant", R"({"name":"job","perm":{"permType":"READWRITE","key":")" +
                           to_base64("/plait/") + R"(","range_end":")" + to_base64("/plait0") +
                           "\"}}");
    call("enable", "{}");
  }
  // Before users exist, a client that gives one must not believe that it is checked.
  static void expect_no_user_is_no_secret() {
    expect_words(refusal([] { etcd(access(), 20s).read("/plait/"); }),
                 "etcd does not authenticate clients");
  }
  static void TearDownTestSuite() {
    server_.reset();
    fs::remove_all(folder_);
  }
  void SetUp() override {
    if (!missing_.empty()) GTEST_SKIP() << "there is no " << missing_ << " in PATH";
    prefix_ = "/plait/" +
              std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "/";
  }
  static own_etcd& server() { return *server_; }
  static certificates const& made() { return *made_; }
  static fs::path const& folder() { return folder_; }
  static etcd_security files() {
    return {.ca = made_->pem("ca"),
            .certificate = made_->pem("client"),
            .key = made_->key("client"),
            .user = "job",
            .password_file = folder_ / "password"};
  }
  static std::shared_ptr<etcd_access> access(etcd_security const& said = files()) {
    return std::make_shared<etcd_access>(server_->at(), said);
  }
  static std::string read_refused(etcd_security const& said) {
    return refusal([&] { etcd(access(said), 20s).read("/plait/"); });
  }
  [[nodiscard]] std::string key(std::string const& name) const { return prefix_ + name; }
  [[nodiscard]] std::string const& prefix() const { return prefix_; }

 private:
  static inline std::string missing_{};
  static inline fs::path folder_{};
  static inline std::unique_ptr<certificates> made_{};
  static inline std::unique_ptr<own_etcd> server_{};
  std::string prefix_{};
};

TEST_F(EtcdSecurity, AnAdmittedUserUsesAllCalls) {
  std::atomic<int> changes = 0;
  etcd_watch const watch(access(), prefix(), [&] { ++changes; });
  etcd one(access(), 30s);
  auto const lease = one.grant(60s);
  EXPECT_TRUE(one.change({}, {{.key = key("a"), .value = "1", .lease = lease}}).done);
  EXPECT_EQ(one.read(prefix()).entries.at(0).value, "1");
  EXPECT_GT(one.keep_alive(lease).count(), 0);
  one.revoke(lease);
  EXPECT_TRUE(one.read(prefix()).entries.empty());
  for (auto const end = std::chrono::steady_clock::now() + 30s;
       changes == 0 && std::chrono::steady_clock::now() < end;)
    std::this_thread::sleep_for(10ms);
  EXPECT_GT(changes, 0);
}

// A token expires after a while, and when etcd is restarted; the client learns it from an error.
TEST_F(EtcdSecurity, TokensAreRenewed) {
  auto const with = access();
  etcd one(with, 30s), other(access(), 30s);
  std::atomic<int> changes = 0;
  one.change({}, {{.key = key("a"), .value = "1"}});
  other.change({}, {{.key = key("b"), .value = "1"}});
  auto const first = with->token();
  EXPECT_FALSE(first.empty());
  std::unique_ptr<etcd_watch> watch;
  for (int tries = 0; tries < 10 && with->token() == first; ++tries) {  // etcd may be slow
    std::this_thread::sleep_for(3500ms);
    // The watch begins with the old token.
    watch = std::make_unique<etcd_watch>(with, prefix(), [&] { ++changes; });
    EXPECT_TRUE(other.change({}, {{.key = key("b"), .value = "2"}}).done);
    EXPECT_EQ(one.read(key("b")).entries.at(0).value, "2");
  }
  EXPECT_NE(with->token(), first);
  auto const until_changed = [&](int than) {
    for (auto const end = std::chrono::steady_clock::now() + 60s;
         changes <= than && std::chrono::steady_clock::now() < end;)
      std::this_thread::sleep_for(10ms);
    return changes > than;
  };
  EXPECT_TRUE(until_changed(0));
  server().kill();
  try {
    one.read(prefix());
    ADD_FAILURE() << "there is no etcd";
  } catch (etcd_refusal const& problem) {
    ADD_FAILURE() << "nobody has refused anything: " << problem.what();
  } catch (etcd_error const& problem) {
    std::cout << problem.what() << "\n";
  }
  auto const before = changes.load();
  server().start(access());
  EXPECT_TRUE(until_changed(before));
  EXPECT_EQ(one.read(prefix()).entries.size(), 2u);
  EXPECT_TRUE(one.change({}, {{.key = key("b"), .value = "3"}}).done);
}

TEST_F(EtcdSecurity, ServersThatAreNotWhoTheyShouldBe) {
  for (auto const& [shown, words] :
       std::vector<std::pair<std::string, std::string>>{{"of_other", "certificate"},
                                                        {"wrong_name", "does not match"},
                                                        {"expired", "certificate has expired"}}) {
    made().show(shown);
    auto const text = read_refused(files());
    expect_words(text, server().name() + ": TLS: SSL");
    if (shown == "wrong_name")
      EXPECT_TRUE(text.find("does not match") != text.npos ||
                  text.find("no alternative certificate subject name matches") != text.npos)
          << text;
    else expect_words(text, words);
    std::atomic<int> changes = 0;
    {
      etcd_watch const watch(access(), prefix(), [&] { ++changes; });
      std::this_thread::sleep_for(100ms);
    }
    EXPECT_EQ(changes, 0) << shown;
  }
  made().show("server");
  auto said = files();
  said.ca = made().pem("other");
  expect_words(read_refused(said), "certificate");
  said.ca.clear();  // the authorities that the system trusts have not signed the certificate
  expect_words(read_refused(said), "certificate");
  EXPECT_NO_THROW(etcd(access(), 20s).read(prefix()));
}

TEST_F(EtcdSecurity, RefusedUsers) {
  auto said = files();
  said.password_file = folder() / "wrong";
  expect_words(read_refused(said), "user 'job' is not known to etcd, or the password in '");
  said = files();
  said.user = "nobody";
  expect_words(read_refused(said), "user 'nobody' is not known to etcd");
  said = files();
  said.user.clear();
  said.password_file.clear();
  // The name is not the user of the server's certificate.
  expect_words(read_refused(said), "user name is empty");
  expect_words(read_refused(said), "PLAIT_ELASTIC_PASSWORD_FILE");
  expect_words(refusal([&] {
                 etcd(access(said), 20s).change({}, {{.key = "/plait/job/done", .value = ""}});
               }),
               "etcd requires a user");
  said = files();
  said.user = "poor";
  expect_words(read_refused(said), "permission denied");
  expect_words(read_refused(said), "user 'poor' has no permission for the keys of jobs");
  expect_words(refusal([&] { etcd(access(), 20s).change({}, {{.key = "a", .value = ""}}); }),
               "permission denied");
  said = files();
  said.certificate.clear();
  said.key.clear();
  expect_words(read_refused(said), "does it require a certificate");
  said.certificate = made().pem("named");
  said.key = made().key("named");
  expect_words(read_refused(said), "named.pem' has a CommonName, which etcd's gateway does not");
  said.certificate = made().pem("of_other");
  said.key = made().key("of_other");
  expect_words(read_refused(said), "does it accept the certificate '" + said.certificate.native());
  expect_words(refusal<etcd_error>([&] { etcd("etcd://" + server().name(), 20s).read("a"); }),
               "does it want TLS (etcds://)?");
}

TEST_F(EtcdSecurity, APasswordMayChange) {
  auto said = files();
  said.password_file = folder() / "changing";
  write(said.password_file, "correct donkey");
  auto const with = access(said);
  etcd one(with, 20s);
  expect_words(refusal([&] { one.read(prefix()); }), "is wrong");
  write(said.password_file, secret);
  EXPECT_TRUE(one.read(prefix()).entries.empty());
  with->forget(with->token());
  fs::remove(said.password_file);
  expect_words(refusal([&] { one.read(prefix()); }), "password file '");
}

TEST_F(EtcdSecurity, FilesAreLookedAtFirst) {
  auto const refused = [](etcd_security const& said, std::string const& at = "etcds://a:1") {
    return refusal<plait::input_error>([&] { etcd_access(at, said); });
  };
  auto const missing = folder() / "missing";
  expect_words(refused({.ca = missing}),
               "etcd's CA file '" + missing.native() + "' cannot be read");
  auto said = files();
  said.certificate = missing;
  expect_words(refused(said), "certificate for etcd '");
  said = files();
  said.key = missing;
  expect_words(refused(said), "key for etcd '");
  said.key.clear();
  expect_words(refused(said), "a certificate and its key belong together");
  said = files();
  said.password_file = missing;
  expect_words(refused(said), "password file '");
  said.password_file.clear();
  expect_words(refused(said), "a user and a password belong together");
  said.password_file = folder() / "open";
  for (::mode_t const mode : {0640u, 0604u, 0620u, 0777u}) {
    write(said.password_file, secret, mode);
    expect_words(refused(said), "may be used by other users");
  }
  said = files();
  ::chmod(said.key.c_str(), 0644);
  expect_words(refused(said), "may be used by other users");
  ::chmod(said.key.c_str(), 0600);
  expect_words(refused(files(), "etcd://127.0.0.1:1"),
               "are not encrypted; write etcds://host:port");
  said = {.user = "job", .password_file = folder() / "password"};
  for (auto const* const at : {"etcd://a:1", "etcd://127.0.0.1:1,10.0.0.1:1", "etcd://127.a:1"})
    expect_words(refused(said, at), "unencrypted; write etcds://host:port");
  for (auto const* const at :
       {"etcd://127.0.0.1:1", "etcd://localhost:1,[::1]:1", "etcd+unix:///run/etcd"})
    EXPECT_EQ(refused(said, at), "");
}

TEST_F(EtcdSecurity, EnvironmentFillsWhatIsNotSaid) {
  ::setenv("PLAIT_ELASTIC_CA", "/ca", 1);
  ::setenv("PLAIT_ELASTIC_CERT", "/cert", 1);
  ::setenv("PLAIT_ELASTIC_KEY", "/key", 1);
  ::setenv("PLAIT_ELASTIC_USER", "job", 1);
  ::setenv("PLAIT_ELASTIC_PASSWORD_FILE", "/password", 1);
  auto const all = plait::detail::with_environment({});
  EXPECT_EQ(all.ca, "/ca");
  EXPECT_EQ(all.certificate, "/cert");
  EXPECT_EQ(all.key, "/key");
  EXPECT_EQ(all.user, "job");
  EXPECT_EQ(all.password_file, "/password");
  EXPECT_EQ(plait::detail::with_environment({.user = "other"}).user, "other");
  for (auto const* const name : {"CA", "CERT", "KEY", "USER", "PASSWORD_FILE"})
    ::unsetenv(("PLAIT_ELASTIC_" + std::string(name)).c_str());
  EXPECT_TRUE(plait::detail::with_environment({}).user.empty());
}

}  // namespace
